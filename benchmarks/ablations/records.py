"""Rows of the ablations, and records of their runs in docs/results/ablations.jsonl.

A record has, besides the figures of `timed_training.Trained`:

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `row`, `settings` | name of the row, and its settings over the defaults |
| `budget_s`, `seed` | seconds of processor time on one thread, and the seed |
| `versions` | versions of the game and of the agent that trains (`common/versions.py`) |
| `machine` | a label |
"""

import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.env.workloads.known_bounds import judged_by

from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..common.timed_training import configure
from ..common.versions import TRAINING, versions_of

ROWS = Path(__file__).with_name("rows.toml")
RESULTS = ROOT / "docs" / "results" / "ablations.jsonl"
DEFAULT = "default"

key_of = keyed_by("program", "program_sha256", "judged_by", "row", "settings", "budget_s", "seed", "versions")


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      why: description of the row.
      settings: values by dotted name, over the defaults.
      needs: a feature that the agent lacks, so that the row is not run, or None.
    """

    why: str
    settings: dict[str, Any]
    needs: str | None


def rows(path: Path = ROWS) -> dict[str, Row]:
    """Returns the declared rows by name; the first is the agent with its defaults."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Row(entry.pop("why"), entry, entry.pop("needs", None)) for name, entry in found.items()}


def refusal(row: Row) -> str | None:
    """Returns the reason not to run a row: its settings are unknown, or are the defaults. None for a row to run."""
    try:
        config = configure(row.settings, "tiny", 0)
    except UserError as error:
        return str(error)
    if row.settings and config == configure({}, "tiny", 0):
        return "is what the agent has by default"
    return None


def identity(program: str, row: str, settings: dict[str, Any], seconds: float, seed: int) -> Record:
    """Returns the fields of a record that make its key."""
    loaded = load(program)
    return {
        "program": loaded.name,
        "program_sha256": loaded.sha256[:12],
        "judged_by": judge_hash(loaded),
        "row": row,
        "settings": settings,
        "budget_s": float(seconds),
        "seed": seed,
        "versions": versions_of(TRAINING),
    }


@cache
def judge_hash(program: Program) -> str:
    """Returns the hash of cycle table and production latencies, which ratios depend on besides the problem."""
    return judged_by(make_judge(program))


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key, in their order; of several with one key the last.

    Raises:
      SystemExit: a line is not a record.
    """
    return dict(read_runs(paths, key_of))
