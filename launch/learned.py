"""`solve --solver muzero`: the shipped policy, or a given one, searches a program and learns from it meanwhile."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..actors.self_play.branch import BranchConfig
from ..actors.self_play.reward_scale import DECISIONS_PER_UNIT, MIN_HEADROOM
from ..env.program.program import Program
from ..learner.fine_tune import FineTuner, Lessons
from ..learner.networks.network import Network, Params
from ..solvers.common.counterfactual import plan_outcomes, policy_of_outcomes
from ..solvers.common.task import Budget, Plan, Progress, Task
from ..solvers.learned.guided import Change, Guide, View, look
from ..solvers.learned.solver import MuZeroConfig, muzero
from ..solvers.solve import Solution, Solver, solve
from .run.policy import load_policy

NAME = "muzero"
# Shares of the budget that the games of a lesson may take, and its steps; how many, and the most rows that are kept.
_LESSON_SHARE, _STEPS_SHARE, _STEPS, _MOST_ROWS = 0.01, 0.02, 12, 4000


def solve_muzero(
    program: Program,
    policy: str | Path | None = None,
    *,
    objective: str | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    repack: bool = True,
    config: MuZeroConfig | None = None,
) -> Solution:
    """Maps a program; the mapping is never worse than XLA's production mapping.

    Args:
      program: what is mapped.
      policy: a policy file or a run directory; None for the shipped policy.
      objective, budget, seed, progress, stop, repack: as in `actors.solvers.solve.solve`.
      config: how the budget is spent.

    Raises:
      UserError: the policy cannot be read, or the objective makes no sense.
    """
    solver = muzero_solver(policy, config)
    return solve(
        program,
        NAME,
        None,
        objective,
        budget,
        seed,
        progress,
        stop,
        repack,
        solvers={NAME: solver},
    )


def muzero_solver(policy: str | Path | None = None, config: MuZeroConfig | None = None) -> Solver:
    """Returns the solver with a policy, compiled; each run of it begins from the policy as it was read."""
    network, params, _ = load_policy(policy)
    Guide(network, params).compile()
    step_s = FineTuner(network, params).compile()

    def run(task: Task) -> None:
        seconds = task.budget.seconds
        pays = seconds is None or _STEPS * step_s <= _STEPS_SHARE * seconds
        tutor = Tutor(network, params, task) if pays else None
        muzero(task, Guide(network, params), tutor, config)

    return run


class Tutor:
    """Teaches a guide the program at hand: what moves along the current plan would really come to."""

    def __init__(self, network: Network, params: Params, task: Task) -> None:
        self._tuner = FineTuner(network, params)
        self._epsilon = BranchConfig().epsilon
        self._unit_s: float | None = None
        self._lessons: Lessons | None = None

    def __call__(self, task: Task, plan: Plan, guide: Guide) -> list[Change]:
        """Adds decisions along `plan` to the lessons, takes steps on all, and gives the guide what came of it.

        Returns:
          The changes of one preference that made the game better, best last.
        """
        view = look(task, plan)
        if not len(view.access):
            return []
        if self._unit_s is None:
            # As `make_scale` has it, but for the greedy player's games, which take longer than a lesson.
            headroom_s = max(task.best_s - task.game.judge.floor_s(), MIN_HEADROOM * task.best_s)
            self._unit_s = headroom_s * DECISIONS_PER_UNIT / max(len(view.access), DECISIONS_PER_UNIT)
        chosen = np.sort(task.generator.permutation(len(view.access))[: _rows_worth(task)])
        seconds = plan_outcomes(task, plan, view.access[chosen])
        task.evaluations += int(np.isfinite(seconds).sum())
        policy = np.stack([policy_of_outcomes(row, self._unit_s, self._epsilon) for row in seconds])
        new = Lessons(view.observation[chosen], view.legal[chosen], policy)
        if self._lessons is not None:
            new = Lessons(*(np.concatenate(parts)[-_MOST_ROWS:] for parts in zip(self._lessons, new, strict=True)))
        self._lessons = new
        self._tuner.learn(new, _STEPS, task.generator)
        guide.params = self._tuner.params
        return _helping(seconds, view.at(chosen))


def _helping(seconds: NDArray[np.float64], view: View) -> list[Change]:
    """Returns the preferences that lead to better games than the line's moves, best last. Where the line waits as the rules
    of the game would not let it, nothing is known of its own move."""
    own = seconds[np.arange(len(view.move)), view.move][:, None]
    known = np.isfinite(own) & np.isfinite(seconds)
    gains = np.where(known, own, 0.0) - np.where(known, seconds, 0.0)
    rows, moves = np.nonzero(gains > 0.0)
    order = np.argsort(gains[rows, moves], kind="stable")
    accesses, preferences = view.access[rows[order]], view.preference[rows[order], moves[order]]
    return list(zip(accesses.tolist(), preferences.tolist(), strict=True))


def _rows_worth(task: Task) -> int:
    """Returns how many decisions to look into in a lesson: as many as take its share of the budget."""
    if task.budget.seconds is None:
        return 32
    per_game = task.seconds / max(task.evaluations, 1)
    return int(np.clip(_LESSON_SHARE * task.budget.seconds / max(2.0 * per_game, 1e-9), 4, 400))
