"""Records of solver runs, in docs/results/solvers.jsonl.

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `objective`, `solver`, `budget_s`, `seed` | the run, and its seconds of processor time |
| `versions` | version of the game and of the solver (`common/versions.py`) |
| `latency_us`, `ratio` | of the mapping under the judge, and relative to production |
| `evaluations`, `seconds`, `wall_s` | mappings judged, processor time and wall time spent |
| `ended` | the solver had no more to do: the same figures hold for larger budgets |
| `machine` | a label; budgets on different machines are not quite equal |
"""

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from mallocmuzero.env.physics.objective import make_judge, resolve
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.workloads.known_bounds import judged_by

from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..common.versions import is_current

RESULTS = ROOT / "docs" / "results" / "solvers.jsonl"
# Runs on one faster machine by one state of the code: seed 0 with several budgets, ten seeds where luck counts.
FASTER = RESULTS.with_name("solvers-faster.jsonl")
# Solvers in which nothing depends on chance once they come to their end.
SEEDLESS = ("xla", "flags", "greedy")

FIELDS = ("program", "program_sha256", "judged_by", "objective", "solver", "budget_s", "seed")
key_of = keyed_by(*FIELDS)


def identity(program: Program, solver: str, objective: str | None, seconds: float, seed: int) -> Record:
    """Returns the fields of a record that make its key."""
    objective = resolve(program, objective)
    judge = _judged_by(program, objective)
    values = (program.name, program.sha256[:12], judge, objective, solver, float(seconds), seed)
    return dict(zip(FIELDS, values, strict=True))


@cache
def _judged_by(program: Program, objective: str) -> str:
    return judged_by(make_judge(program, objective))


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key. Of several with one key, one of the present version wins, then the last.

    Raises:
      SystemExit: a line is not a record.
    """
    found: dict[Key, Record] = {}
    for key, record in read_runs(paths, key_of):
        if key not in found or is_current(record) or not is_current(found[key]):
            found[key] = record
    return found


def lookup(found: dict[Key, Record], key: Key) -> Record | None:
    """Returns the run of a key, or one that stands for it.

    A run that ended by itself stands for larger budgets, and a run of a solver without chance for all seeds.
    """
    *head, seconds, seed = key
    seeds = (seed, 0) if key[4] in SEEDLESS else (seed,)
    candidates = [
        record
        for other, record in found.items()
        if other[:5] == tuple(head) and other[6] in seeds and other[5] <= seconds and (other == key or record["ended"])
    ]
    return max(candidates, key=lambda record: (is_current(record), record["budget_s"]), default=None)


def write_sorted(path: Path, found: dict[Key, Record]) -> None:
    """Writes runs in order of their keys, which keeps differences between versions of the file short."""
    lines = [json.dumps(found[key], sort_keys=True) + "\n" for key in sorted(found)]
    write_atomically(path, "".join(lines).encode())
