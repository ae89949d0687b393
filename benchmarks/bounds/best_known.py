"""Lowers `best_known` of env/workloads/bounds.json to the best that any committed result has reached.

    python -m benchmarks.bounds.best_known

Reads the results of solvers, of the agent, of the policy, of steadiness and of round trips in docs/results. A result
counts if it is of the same problem, with the same production latency, for the whole fast memory. One below the proved
bound, which an earlier version of the rules may have allowed, does not.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from mallocmuzero.env import workloads
from mallocmuzero.env.bounds.bound import PROVED_GAP
from mallocmuzero.env.physics.cost import MODELS
from mallocmuzero.env.physics.objective import ROBUST, make_judge
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.workloads.known_bounds import PATH, judged_by

from ..common.json_lines import ROOT, Record
from .measure import text_of

RESULTS = ROOT / "docs" / "results"
# By processor or wall time, with any seeds, settings and versions: how a mapping was found does not matter.
JUDGED = ("solvers", "solvers-faster", "agent-solvers", "agent")
PLAYED = ("policy", "steadiness")
CONFIRMED = ("round-trip", "round-trip-minute", "round-trip-policy")
_SAME = 1e-6


class Found(NamedTuple):
    """A mapping's figure in a result: `value` under `objective`, in seconds, or under `robust` the ratio."""

    program: str
    objective: str
    value: float


def main() -> None:
    """Lowers the figures and prints which."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    records: list[dict[str, Any]] = list(json.loads(PATH.read_text(encoding="utf-8"))["records"])
    changed = lower(records, list(found_in(RESULTS)))
    write_atomically(PATH, text_of(records).encode())
    print(f"wrote {PATH}: {changed} of {len(records)} best known figures are better than before")


def lower(records: list[dict[str, Any]], found: list[Found]) -> int:
    """Lowers `best_known` of records, in place; returns of how many."""
    changed = 0
    for record in records:
        mine = [one.value for one in found if (one.program, one.objective) == (record["program"], record["objective"])]
        legal = [value for value in mine if value >= record["bound"] * (1.0 - 1e-9)]
        best = min(legal, default=record["best_known"])
        if best < record["best_known"] * (1.0 - _SAME):
            changed += 1
            record["best_known"] = max(best, record["bound"])
            record["bound_proved"] = record["best_known"] <= record["bound"] * (1.0 + PROVED_GAP)
    return changed


def found_in(folder: Path) -> Iterator[Found]:
    """Yields the figures of all results in a folder that are of the committed programs."""
    programs = _Programs()
    for file in JUDGED:
        for row in _rows(folder / f"{file}.jsonl"):
            objective = row.get("objective", ROBUST)
            if row["ratio"] is not None and programs.judged_by(row["program"], objective) == row["judged_by"]:
                yield Found(row["program"], objective, row["ratio"] * programs.unit(row["program"], objective))
    for file in PLAYED:
        for row in _rows(folder / f"{file}.jsonl"):
            name, objective = row["program"], row["objective"]
            whole = row.get("share", 1.0) == 1.0 and row.get("times", 1) == 1
            if whole and programs.is_production(name, row["production_s"], objective):
                yield Found(name, objective, row["judged_s"] / row["production_s"] * programs.unit(name, objective))
    for file in CONFIRMED:
        for row in _rows(folder / f"{file}.jsonl"):
            if programs.sha256(row["program"])[:12] != row["program_sha256"]:
                continue
            ratios = {}
            for model, us in row["confirmed_us"].items():
                if us is not None and programs.is_production(row["program"], row["default_us"][model] / 1e6, model):
                    ratios[model] = us / row["default_us"][model]
                    yield Found(row["program"], model, us / 1e6)
            if len(ratios) == len(MODELS):
                yield Found(row["program"], ROBUST, max(ratios.values()))


def _rows(path: Path) -> Iterator[Record]:
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


class _Programs:
    """The figures that results are compared with, computed once per program; names of no workload match nothing."""

    def __init__(self) -> None:
        self._judges: dict[tuple[str, str], Any] = {}
        self._programs: dict[str, Any] = {}

    def _program(self, name: str) -> Any:
        if name not in self._programs:
            here = workloads.is_workload(name) and workloads.workload(name).path.exists()
            self._programs[name] = workloads.load(name) if here else None
        return self._programs[name]

    def _judge(self, name: str, objective: str) -> Any:
        if (name, objective) not in self._judges:
            program = self._program(name)
            fits = program is not None and (objective == "msa" or program.cycles is not None)
            judge = make_judge(program, objective) if fits else None
            self._judges[name, objective] = (judge, None if judge is None else judged_by(judge))
        return self._judges[name, objective]

    def sha256(self, name: str) -> str:
        program = self._program(name)
        return "" if program is None else str(program.sha256)

    def judged_by(self, name: str, objective: str) -> str | None:
        digest: str | None = self._judge(name, objective)[1]
        return digest

    def unit(self, name: str, objective: str) -> float:
        """Returns what a ratio to production is multiplied by: the seconds of production; 1 under `robust`."""
        return 1.0 if objective == ROBUST else float(self._judge(name, objective)[0].production_s)

    def is_production(self, name: str, seconds: float, objective: str) -> bool:
        judge = self._judge(name, objective)[0]
        known = None if judge is None else judge.production_s
        return known is not None and abs(seconds - known) <= _SAME * known


if __name__ == "__main__":
    main()
