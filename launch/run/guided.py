"""Composes the solvers with a trained network, `guided` and `policy`, from a policy file or a run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...env.errors import UserError
from ...env.program.program import Program
from ...learner.checkpoints.plain_policy import read_plain_parameters
from ...solvers.common.budget import Budget, Progress
from ...solvers.learned.config import GuidedConfig
from ...solvers.learned.score import NONE, Score, check_params, make_score
from ...solvers.learned.solver import make_guided, make_policy
from ...solvers.solve import Solution, Solvers, solve
from .shipped import SHIPPED

GUIDED, POLICY = "guided", "policy"
# Both end by repacking the mapping.
LEARNED = (GUIDED, POLICY)


def learned_solvers(
    policy: str | Path | None = None, placebo: str | None = None, config: GuidedConfig | None = None
) -> Solvers:
    """Returns `guided` and `policy`. The shipped policy is read when they are first called, any other policy at once.

    Args:
      policy: a policy file or a run directory; None for the shipped policy.
      placebo: plays in the network's place (`solvers/learned/score.py`); None for the network itself.
      config: settings of `guided`; None for the defaults.

    Raises:
      UserError: the policy cannot be read, or there is no such placebo.
    """
    network = _LazyScore(policy, placebo)
    if policy is not None or placebo is not None:
        network()
    return {
        GUIDED: lambda task: make_guided(network(), config)(task),
        POLICY: lambda task: make_policy(_needed(network()))(task),
    }


def solve_guided(
    program: Program,
    policy: str | Path | None = None,
    *,
    objective: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    repack: bool = True,
    placebo: str | None = None,
    config: GuidedConfig | None = None,
) -> Solution:
    """Maps a program; the mapping is never worse than XLA's production mapping.

    Args:
      program: the program.
      policy, placebo, config: see `learned_solvers`.
      objective, budget, seed, progress, stop, repack: see `solvers.solve.solve`.

    Raises:
      UserError: the policy cannot be read, or the program lacks what the objective needs.
    """
    return solve(
        program,
        GUIDED,
        objective=objective,
        budget=budget,
        seed=seed,
        progress=progress,
        stop=stop,
        repack=repack,
        solvers=learned_solvers(policy, placebo, config),
    )


def read_scoring_parameters(policy: str | Path | None) -> dict[str, Any]:
    """Returns the parameters of a policy file, of a run's last checkpoint, or of the shipped policy for None.

    Raises:
      UserError: it is neither, cannot be read, or plays the game `access`.
    """
    path = SHIPPED if policy is None else Path(policy)
    if not path.is_dir():
        return check_params(read_plain_parameters(path), path)
    import jax

    from .directory import RunDirectory
    from .policy import read_policy_of_run

    return check_params(jax.device_get(read_policy_of_run(RunDirectory(path)).params), path)


class _LazyScore:
    """The score of a policy, read at the first call."""

    def __init__(self, policy: str | Path | None, placebo: str | None) -> None:
        self._policy, self._placebo = policy, placebo
        self._score: Score | None = None
        self._read = False

    def __call__(self) -> Score | None:
        if not self._read:
            none = self._placebo == NONE
            self._score = None if none else make_score(read_scoring_parameters(self._policy), self._placebo)
            self._read = True
        return self._score


def _needed(score: Score | None) -> Score:
    if score is None:
        raise UserError("--placebo none leaves the solver policy nothing to play; choose untrained or shuffled")
    return score
