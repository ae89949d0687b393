"""Reads the known bounds and best latencies of the committed programs, which `benchmarks/bounds/measure.py` wrote.

`bounds.json` is `{"format": "mallocmuzero-bounds", "records": [...]}`, one record per program, objective and version:

| key | contents |
|---|---|
| `program`, `program_sha256` | name and hash of the problem |
| `objective` | `msa`, `cycles` or `robust` |
| `judged_by` | hash of the cycle table and the production mapping's latencies, on which figures also depend |
| `version` | `env.bounds.bound.VERSION` |
| `floor`, `relaxation`, `integer`, `bound` | seconds; under `robust` the ratio to production; null where not found |
| `found`, `production`, `best_known` | likewise, of mappings: made from the solutions, XLA's own, the best known |
| `bound_proved` | the bound proves `best_known` optimal to within 0.1 % |
| `optimal` | the mixed-integer program was solved to the end |
| `tried_seconds`, `tried_integer` | the time limit, and whether the mixed-integer program was tried |
| `seconds`, `columns`, `rows`, `integers` | time spent (wall, on a busy machine), size of the program |
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ..physics.cost import MSA
from ..physics.objective import Judge, make_judge
from ..program.cycle_table import WITHIN_SEEN, table_fields
from ..program.program import Program

FORMAT = "mallocmuzero-bounds"
PATH = Path(__file__).parent / "bounds.json"


@dataclass(frozen=True)
class Known:
    """The known figures of a program under an objective: seconds, or ratios to production under `robust`.

    Attributes:
      bound: a lower bound on every mapping.
      proved: `best` is within 0.1 % of the bound.
      best: the best known mapping's figure, or None.
    """

    bound: float
    proved: bool
    best: float | None


def known(program: Program, path: Path = PATH) -> dict[str, Known]:
    """Returns the known figures by objective, as far as there are records of this problem and cycle table.

    There are none for a program that does not record which copies keep their layout, because more mappings of it are
    legal than the bounds cover.
    """
    if program.keeps_layout is None:
        return {}
    found: dict[str, Known] = {}
    for record in _records(path):
        if record["program_sha256"] == program.sha256 and record["bound"] is not None:
            objective = record["objective"]
            if record["judged_by"] == judged_by(make_judge(program, objective)):
                found[objective] = Known(record["bound"], record["bound_proved"], record["best_known"])
    return found


@cache
def _records(path: Path) -> list[dict[str, Any]]:
    return list(json.loads(path.read_text(encoding="utf-8"))["records"]) if path.exists() else []


def judged_by(judge: Judge) -> str:
    """Returns a hash of what a judge's figures depend on besides the problem: cycle table and production latencies."""
    table = judge.program.cycles
    what: list[Any] = [{model: f"{seconds:.9e}" for model, seconds in sorted(judge.baseline.items())}]
    if table is not None and judge.objective != MSA:
        what += [table_fields(table)["pairs"], *([] if table.completion == WITHIN_SEEN else [table.completion])]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:16]
