"""Where a policy comes from: the one that is shipped, a policy file, or the last checkpoint of a run."""

from pathlib import Path

from ...env.errors import UserError
from ...learner.checkpoints.checkpoint import Checkpoints, load_parameters
from ...learner.checkpoints.policy_file import Policy, read_policy
from ...learner.networks.network import Network
from .checkpoints import LEARNER, RunCheckpoints
from .directory import RunDirectory

SHIPPED = Path(__file__).parents[1] / "policies" / "default.policy"


def load_policy(policy: str | Path | None) -> Policy:
    """Reads a policy file or a run directory; None for the shipped policy.

    Raises:
      UserError: it is neither, or cannot be read.
    """
    path = SHIPPED if policy is None else Path(policy)
    return read_policy_of_run(RunDirectory(path)) if path.is_dir() else read_policy(path)


def read_policy_of_run(run: RunDirectory) -> Policy:
    """Reads the policy of a run's last checkpoint. Raises UserError if there is no whole one."""
    config, _ = run.open()
    folder, _ = RunCheckpoints(run.checkpoints, keep=1).read()
    learner = folder / LEARNER
    steps = Checkpoints(learner, Network(config.network)).steps()
    if not steps:
        raise UserError(f"{learner}: holds no parameters; train longer, or give a policy file")
    network, params, step = load_parameters(learner / f"step_{steps[-1]:09d}")
    return Policy(network, params, {"run": run.path.name, "step": step})
