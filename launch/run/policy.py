"""Policies of runs: reads the policy of a run, a policy file or the shipped policy, and exports a run's as a file."""

from pathlib import Path
from typing import Any

from ...env.errors import UserError
from ...learner.checkpoints.checkpoint import Checkpoints, load_parameters
from ...learner.checkpoints.policy_file import Policy, read_policy, write_policy
from ...learner.networks.network import Network
from .checkpoints import LEARNER, RunCheckpoints
from .directory import RunDirectory
from .metric_lines import read_metric_lines
from .shipped import SHIPPED

# An exported policy carries this many points of its learning curve, and these figures of each.
_CURVE_POINTS = 60
_CURVE = ("step", "minutes", "learner/loss", "learner/policy_kl", "learner/value_error_root", "learner/reward_error")


def load_policy(policy: str | Path | None) -> Policy:
    """Reads a policy file, or the policy of a run directory; the shipped policy for None.

    Raises:
      UserError: it is neither, or cannot be read.
    """
    path = SHIPPED if policy is None else Path(policy)
    return read_policy_of_run(RunDirectory(path)) if path.is_dir() else read_policy(path)


def read_policy_of_run(run: RunDirectory) -> Policy:
    """Reads the policy of a run's last checkpoint. Raises UserError if there is no whole checkpoint."""
    config, _ = run.open()
    folder, _ = RunCheckpoints(run.checkpoints, keep=1).read()
    checkpoints = Checkpoints(folder / LEARNER, Network(config.network))
    steps = checkpoints.steps()
    if not steps:
        raise UserError(f"{folder / LEARNER}: holds no parameters; train longer, or give a policy file")
    network, params, step = load_parameters(checkpoints.path(steps[-1]))
    return Policy(network, params, {"run": run.path.name, "step": step})


def export_policy(run_dir: str | Path, path: str | Path) -> dict[str, Any]:
    """Writes the policy of a run's last checkpoint as a file; returns the `info` that the file carries.

    Raises:
      UserError: there is no run or no whole checkpoint, or the file cannot be written.
    """
    run = RunDirectory(run_dir)
    config, manifest = run.open()
    policy = read_policy_of_run(run)
    info = {
        **policy.info,
        "config": config.to_json(),
        "seed": config.seed,
        "code": manifest.get("code"),
        "programs": manifest["programs"],
        "curve": _learning_curve(run.metrics_file),
    }
    write_policy(path, policy.network, policy.params, info)
    return info


def _learning_curve(path: Path) -> list[dict[str, float]]:
    """Returns evenly spaced points of the learning curve; none if there is no metric file."""
    points = [
        {name: values[name] for name in _CURVE if name in values}
        for values in read_metric_lines(path)
        if "learner/loss" in values
    ]
    spacing = max(1, -(-len(points) // _CURVE_POINTS))
    return points[::-1][::spacing][::-1]
