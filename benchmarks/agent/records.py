"""Records of the agent's runs against its targets, in docs/results/agent.jsonl, and best known mappings.

| key | contents |
|---|---|
| `program`, `program_sha256`, `judged_by` | name, hash of the problem, hash of cycle table and production latencies |
| `mode` | `per-program`: trained on the program from nothing; `held-out`: solver `guided` with a policy that has not \
seen the family; `unguided`: the same solver without a policy |
| `budget_s`, `seed` | seconds of processor time on one thread, and the seed |
| `versions`, `policy_sha256` | versions of the code (`common/versions.py`); hash of the policy, or null |
| `ratio` | of the repacked mapping to production under `robust` |
| `seconds`, `ended`, `machine` | time spent; whether the solver had no more to do; a label |

Runs of `per-program` have the figures of `timed_training.Trained` besides.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mallocmuzero.env.workloads.known_bounds import PATH as BOUNDS
from mallocmuzero.launch.run.policy import SHIPPED

from ..ablations import records as ablation_records
from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..common.versions import GUIDED, TRAINING, versions_of
from ..solvers import records as solver_records

RESULTS = ROOT / "docs" / "results" / "agent.jsonl"
# Runs of other solvers at budgets that docs/results/solvers.md lacks; only the agent's targets need them.
RIVAL_RESULTS = RESULTS.with_name("agent-solvers.jsonl")
PER_PROGRAM, HELD_OUT, UNGUIDED = "per-program", "held-out", "unguided"
MODES = (PER_PROGRAM, HELD_OUT, UNGUIDED)
# Mappings under other orders that `per-program` training judges per minute; they take some per cent of its time.
_ORDERS_PER_MINUTE = 100
# A program is contended if the best known mapping is at least this share below tuned production.
CONTENDED_GAIN = 0.01

key_of = keyed_by("mode", "program", "program_sha256", "judged_by", "budget_s", "seed", "versions", "policy_sha256")


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key, in their order; of several with one key the last.

    Raises:
      SystemExit: a line is not a record.
    """
    return dict(read_runs(paths, key_of))


def settings_of(seconds: float) -> dict[str, Any]:
    """Returns the settings over the defaults of a `per-program` training of `seconds`."""
    return {"actor.annealing.accesses": 1_000_000, "actor.orders": round(_ORDERS_PER_MINUTE * seconds / 60)}


def made_by(mode: str, policy: str | None) -> Record:
    """Returns the fields of a record that identify what made it: versions of the code, and hash of the policy.

    Args:
      mode: one of `MODES`, or the name of another solver.
      policy: a run directory or a policy file; None for the shipped policy.
    """
    subject = {PER_PROGRAM: TRAINING, HELD_OUT: GUIDED, UNGUIDED: GUIDED}.get(mode, mode)
    path = SHIPPED if policy is None else Path(policy)
    return {"versions": versions_of(subject), "policy_sha256": _first_digest(path) if mode == HELD_OUT else None}


@cache
def _first_digest(path: Path) -> str:
    """Returns the hash of a policy as it was when this process, which keeps the policy loaded, first asked."""
    return policy_digest(path)


def policy_digest(path: Path = SHIPPED) -> str:
    """Returns a hash (12 hex digits) of a policy file, or of all files of a run directory."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(other for other in path.rglob("*") if other.is_file())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def best_known(references: Iterable[Mapping[str, Any]], bounds: Path = BOUNDS) -> dict[str, float]:
    """Returns the least ratio to production under `robust` in any file of results or of bounds, by program.

    Args:
      references: see `solvers.references.reference`; results on other versions of a program do not count.
      bounds: the file of bounds and best known mappings.
    """
    names = {(entry["program_sha256"], entry["judged_by"]): entry["program"] for entry in references}
    found = dict.fromkeys(names.values(), 1.0)
    for record in json.loads(bounds.read_text(encoding="utf-8"))["records"]:
        name = names.get((record["program_sha256"][:12], record["judged_by"]))
        if name is not None and record["objective"] == "robust" and record["best_known"] is not None:
            found[name] = min(found[name], record["best_known"])
    runs = [*solver_records.read([solver_records.RESULTS, RIVAL_RESULTS]).values(), *read([RESULTS]).values()]
    figures = [(run, run["ratio"]) for run in runs if run.get("objective", "robust") == "robust"]
    figures += [(run, run["best"]) for run in ablation_records.read([ablation_records.RESULTS]).values()]
    for run, ratio in figures:
        name = names.get((run["program_sha256"], run["judged_by"]))
        if name is not None and ratio is not None:
            found[name] = min(found[name], ratio)
    return found


def is_contended(entry: Mapping[str, Any], best: float) -> bool:
    """Returns whether a program's best known mapping is at least 1 % below tuned production."""
    tuned = 1.0 if entry["tuned"] is None else float(entry["tuned"])
    return best <= (1.0 - CONTENDED_GAIN) * tuned
