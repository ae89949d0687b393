"""A run's policy as one file, with what is needed to know where it comes from."""

import json
from pathlib import Path
from typing import Any

from ...learner.checkpoints.policy_file import Policy, write_policy
from .directory import RunDirectory
from .policy import read_policy_of_run

# Points of the learning curve that are kept, and what of each.
_POINTS = 60
_CURVE = ("step", "minutes", "learner/loss", "learner/policy_kl", "learner/value_error_root", "learner/reward_error")


def export(run_dir: str | Path, path: str | Path) -> dict[str, Any]:
    """Writes the policy of a run's last checkpoint; returns the `info` that it carries.

    Raises:
      UserError: there is no run or no whole checkpoint, or the file cannot be written.
    """
    run = RunDirectory(run_dir)
    config, manifest = run.open()
    policy: Policy = read_policy_of_run(run)
    info = {
        **policy.info,
        "config": config.to_json(),
        "seed": config.seed,
        "code": manifest.get("code"),
        "programs": manifest["programs"],
        "curve": _curve(run.metrics_file),
    }
    write_policy(path, policy.network, policy.params, info)
    return info


def _curve(path: Path) -> list[dict[str, float]]:
    """Returns some points of the learning curve, evenly spread; none if nothing was kept."""
    if not path.exists():
        return []
    points = []
    for line in path.read_text(encoding="utf-8").splitlines():
        values = json.loads(line)
        if "learner/loss" in values:
            points.append({name: values[name] for name in _CURVE if name in values})
    spacing = max(1, -(-len(points) // _POINTS))
    return points[::-1][::spacing][::-1]
