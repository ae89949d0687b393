"""Runs of solvers on disk (`json_lines.py`).

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `objective`, `solver`, `budget_s`, `seed` | what ran, and for how many seconds of processor time |
| `code` | hash of all the code that the solver depends on (`source_hash.py`) |
| `latency_us`, `ratio` | of its mapping, as the judge counts, and relative to production |
| `evaluations`, `seconds`, `wall_s` | what it took |
| `ended` | the solver had no more to do: the same figures hold for larger budgets |
| `machine` | a label; budgets on different machines are not quite equal |
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mallocmuzero.env.physics.objective import make_judge, resolve
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads.bounds import judged_by
from mallocmuzero.solvers.solve import SOLVERS

from ..common.json_lines import ROOT, Record, append, read_runs
from ..common.source_hash import source_hash

__all__ = ["RESULTS", "ROOT", "SEEDLESS", "Key", "Record", "append"]

RESULTS = ROOT / "docs" / "results" / "solvers.jsonl"
# Nothing in these depends on chance, if they come to their end.
SEEDLESS = ("xla", "flags", "greedy")

# Program, hash, judged by, objective, solver, budget in seconds, seed.
Key = tuple[str, str, str, str, str, float, int]


def key_of(record: Record) -> Key:
    """Returns what names a run."""
    return (
        record["program"],
        record["program_sha256"],
        record["judged_by"],
        record["objective"],
        record["solver"],
        float(record["budget_s"]),
        int(record["seed"]),
    )


def key_for(program: Program, solver: str, objective: str | None, seconds: float, seed: int) -> Key:
    """Returns the key that a run would have."""
    objective = resolve(program, objective)
    return (program.name, program.sha256[:12], _judged_by(program, objective), objective, solver, float(seconds), seed)


@cache
def _judged_by(program: Program, objective: str) -> str:
    return judged_by(make_judge(program, objective))


@cache
def code_of(solver: str) -> str:
    """Returns the hash of the code that a solver depends on."""
    return source_hash(SOLVERS[solver].__module__)


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key. Of several with one key, one by the code as it is now wins, then the last.

    Raises:
      SystemExit: a line is no run.
    """
    found: dict[Key, Record] = {}
    for key, record in read_runs(paths, key_of):
        if key not in found or is_current(record) or not is_current(found[key]):
            found[key] = record
    return found


def is_current(record: Record) -> bool:
    """Returns whether the solver's code is still what made the run."""
    return record["solver"] in SOLVERS and record["code"] == code_of(record["solver"])


def lookup(found: dict[Key, Record], key: Key) -> Record | None:
    """Returns the run of a key, or one that stands for it: ended by itself within a smaller budget, by any seed of a
    solver without chance."""
    *head, seconds, seed = key
    seeds = (seed, 0) if key[4] in SEEDLESS else (seed,)
    candidates = [
        record
        for other, record in found.items()
        if other[:5] == tuple(head) and other[6] in seeds and other[5] <= seconds and (other == key or record["ended"])
    ]
    return max(candidates, key=lambda record: (is_current(record), record["budget_s"]), default=None)


def write_sorted(path: Path, found: dict[Key, Record]) -> None:
    """Writes runs in order of their keys, for short differences between versions."""
    from mallocmuzero.env.storage.atomic import write_atomically

    lines = [json.dumps(found[key], sort_keys=True) + "\n" for key in sorted(found)]
    write_atomically(path, "".join(lines).encode())
