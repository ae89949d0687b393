"""Rows and runs of the ablations, on disk and in memory.

A run (`json_lines.py`) has, besides the figures of `timed_training.Trained`:

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `row`, `settings` | which row, and what it sets over the defaults |
| `budget_s`, `seed` | seconds of processor time on one thread, and the seed of everything |
| `code`, `config` | hash of the agent's code, and of the whole configuration but for program and seed |
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
from mallocmuzero.env.workloads.bounds import judged_by

from ..common.json_lines import ROOT, Record, read_runs
from ..common.timed_training import agent_code, config_digest, configure

ROWS = Path(__file__).with_name("rows.toml")
RESULTS = ROOT / "docs" / "results" / "ablations.jsonl"
DEFAULT = "default"

# Program, its hash, judged by, row, settings' hash, budget in seconds, seed, code.
Key = tuple[str, str, str, str, str, float, int, str]


class Row(NamedTuple):
    """One row of the table.

    Attributes:
      why: what it is to show.
      settings: dotted names and values, over the defaults.
      needs: what the agent lacks for it, or None.
    """

    why: str
    settings: dict[str, Any]
    needs: str | None


def rows(path: Path = ROWS) -> dict[str, Row]:
    """Returns the rows that are declared, by name, the agent as it is first."""
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: Row(entry.pop("why"), entry, entry.pop("needs", None)) for name, entry in found.items()}


def refusal(row: Row) -> str | None:
    """Returns why a row is not run: this version's agent cannot have its settings, or has them anyway; else None."""
    try:
        config = configure(row.settings, "tiny", 0)
    except UserError as error:
        return str(error)
    if row.settings and config_digest(config) == config_digest(configure({}, "tiny", 0)):
        return "is what the agent has by default"
    return None


def key_of(record: Record) -> Key:
    """Returns what names a run."""
    return (
        record["program"],
        record["program_sha256"],
        record["judged_by"],
        record["row"],
        record["config"],
        float(record["budget_s"]),
        int(record["seed"]),
        record["code"],
    )


def key_for(program: str, row: str, settings: dict[str, Any], seconds: float, seed: int) -> Key:
    """Returns the key that a run would have by the code as it is."""
    loaded = load(program)
    config = config_digest(configure(settings, loaded.name, seed))
    code = _code()
    return (loaded.name, loaded.sha256[:12], judge_hash(loaded), row, config, float(seconds), seed, code)


@cache
def _code() -> str:
    return agent_code()


@cache
def judge_hash(program: Program) -> str:
    """Returns the hash of what a program's figures depend on besides the problem."""
    return judged_by(make_judge(program))


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key, in their order; of several with one key the last.

    Raises:
      SystemExit: a line is no run.
    """
    return dict(read_runs(paths, key_of))
