"""Runs of the agent against its targets, on disk and in memory.

A run (`json_lines.py`) has:

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `mode` | `per-program`: trained on it from nothing; `held-out`: `solve` with a policy that has not seen its family; \
`unguided`: the same solver without any policy |
| `budget_s`, `seed` | seconds of processor time on one thread, and the seed |
| `code`, `policy_sha256` | hash of the agent's code, and of the policy (null where trained from nothing) |
| `ratio` | of its mapping, repacked, to production, under `robust` |
| `seconds`, `ended`, `machine` | what it took; it had no more to do; a label |

and those of `per-program` the figures of `timed_training.Trained`.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mallocmuzero.env.workloads.bounds import PATH as BOUNDS
from mallocmuzero.launch.run.policy import SHIPPED

from ..ablations import records as ablation_records
from ..common.json_lines import ROOT, Record, read_runs
from ..common.source_hash import source_hash
from ..common.timed_training import AGENT_IDLE, agent_code
from ..solvers import records as solver_records

RESULTS = ROOT / "docs" / "results" / "agent.jsonl"
# Runs of other solvers that only the agent's targets need: budgets that docs/solver-results.md does not have.
RIVAL_RESULTS = RESULTS.with_name("agent-solvers.jsonl")
PER_PROGRAM, HELD_OUT, UNGUIDED = "per-program", "held-out", "unguided"
MODES = (PER_PROGRAM, HELD_OUT, UNGUIDED)
# Of `per-program` training: mappings under other orders for each minute of it, which take some per cent of its time.
_ORDERS_PER_MINUTE = 100
# A program is contended if the best known mapping is so much below tuned production (issue: "at least 1 %").
CONTENDED_GAIN = 0.01

# Mode, program, its hash, judged by, budget in seconds, seed, code, policy.
Key = tuple[str, str, str, str, float, int, str, str | None]


def key_of(record: Record) -> Key:
    """Returns what names a run."""
    return (
        record["mode"],
        record["program"],
        record["program_sha256"],
        record["judged_by"],
        float(record["budget_s"]),
        int(record["seed"]),
        record["code"],
        record["policy_sha256"],
    )


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key, in their order; of several with one key the last.

    Raises:
      SystemExit: a line is no run.
    """
    return dict(read_runs(paths, key_of))


def settings_of(seconds: float) -> dict[str, Any]:
    """Returns the settings of `per-program` training for so many seconds, over the defaults."""
    return {"actor.annealing.accesses": 1_000_000, "actor.orders": round(_ORDERS_PER_MINUTE * seconds / 60)}


def code_of(mode: str, seconds: float) -> str:
    """Returns the hash of all code, and settings, that runs of a mode with such a budget depend on."""
    if mode == PER_PROGRAM:
        settings = json.dumps(settings_of(seconds), sort_keys=True)
        return hashlib.sha256(f"{agent_code()} {settings}".encode()).hexdigest()[:12]
    return source_hash("launch.muzero" if mode == HELD_OUT else "actors.muzero", idle=AGENT_IDLE)


def policy_digest(path: Path = SHIPPED) -> str:
    """Returns a hash (12 hex digits) of a policy: of a file, or of all files of a run directory."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(other for other in path.rglob("*") if other.is_file())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def best_known(references: Iterable[Mapping[str, Any]], bounds: Path = BOUNDS) -> dict[str, float]:
    """Returns the best ratio to production under `robust` that any file of results or of bounds has, by program.

    Args:
      references: what `solver_references.reference` says of each program; figures of other versions do not count.
      bounds: the file of bounds and best known mappings.
    """
    versions = {(entry["program_sha256"], entry["judged_by"]): entry["program"] for entry in references}
    found = dict.fromkeys(versions.values(), 1.0)
    for record in json.loads(bounds.read_text(encoding="utf-8"))["records"]:
        name = versions.get((record["program_sha256"][:12], record["judged_by"]))
        if name is not None and record["objective"] == "robust" and record["best_known"] is not None:
            found[name] = min(found[name], record["best_known"])
    runs = [*solver_records.read([solver_records.RESULTS, RIVAL_RESULTS]).values(), *read([RESULTS]).values()]
    figures = [(run, run["ratio"]) for run in runs if run.get("objective", "robust") == "robust"]
    figures += [(run, run["best"]) for run in ablation_records.read([ablation_records.RESULTS]).values()]
    for run, ratio in figures:
        name = versions.get((run["program_sha256"], run["judged_by"]))
        if name is not None and ratio is not None:
            found[name] = min(found[name], ratio)
    return found


def is_contended(entry: Mapping[str, Any], best: float) -> bool:
    """Returns whether a program's best known mapping is at least 1 % below tuned production."""
    tuned = 1.0 if entry["tuned"] is None else float(entry["tuned"])
    return best <= (1.0 - CONTENDED_GAIN) * tuned
