"""Adaptation of the policy to the program at hand, while it is being solved.

Training plays every legal move at some decisions of the current line, and the game after it to the end. These exact
outcomes become targets of the policy head, on which an injected trainer takes gradient steps.

Shapes: `N` decisions, `O` observation size, `M` moves.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ...env.game.plan import Plan
from ...learner.networks.network import Params
from ..common.counterfactual import plan_outcomes, policy_of_outcomes
from ..common.reward_scale import CLEAR_DIFFERENCE, headroom_of, unit_of
from ..common.task import Task
from .decisions import Change, Decisions, decisions_along
from .proposer import Proposer

# Gradient steps of a training, and the share of a budget in seconds that they may take: else the policy stays as it is.
STEPS, STEPS_SHARE = 12, 0.02
# Share of the budget for the games of a training; most decisions that are kept to train on.
_GAMES_SHARE, _MAX_ROWS = 0.01, 4000


class PolicyTrainer(Protocol):
    """Takes gradient steps on a copy of a policy; `learner.fine_tune.FineTuner` is one.

    Attributes:
      params: the parameters after the last step.
    """

    params: Params

    def compile(self) -> float:
        """Compiles a step without taking one; returns the seconds that a step takes."""

    def learn(
        self,
        observation: NDArray[np.float32],
        legal: NDArray[np.bool_],
        policy: NDArray[np.float32],
        *,
        steps: int,
        generator: np.random.Generator,
    ) -> float:
        """Takes `steps` steps towards targets `policy[N, M]` at observations `[N, O]`; returns their mean loss."""


class _Targets(NamedTuple):
    """Decisions to train on.

    Attributes:
      observation: `[N, O]`.
      legal: `[N, M]`.
      policy: `[N, M]`, zero on illegal moves.
    """

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    policy: NDArray[np.float32]


class Adaptation:
    """Trains a policy on one program."""

    def __init__(self, trainer: PolicyTrainer) -> None:
        self._trainer = trainer
        self._unit_s: float | None = None
        self._targets: _Targets | None = None

    def train(self, task: Task, plan: Plan, proposer: Proposer) -> list[Change]:
        """Adds decisions along `plan[A]` to the targets, trains on all, and gives `proposer` the new parameters.

        Returns:
          The changes of one preference that improve the plan, best last.
        """
        decisions = decisions_along(task, plan)
        count = len(decisions.access)
        if not count:
            return []
        if self._unit_s is None:
            # The best game so far stands in for the greedy player's, which would take longer than a training.
            self._unit_s = unit_of(headroom_of(task.best_s, task.game.judge.floor_s()), count)
        chosen = np.sort(task.generator.permutation(count)[: _decisions_per_training(task)])
        seconds = plan_outcomes(task, plan, decisions.access[chosen])
        task.evaluations += int(np.isfinite(seconds).sum())
        policy = np.stack([policy_of_outcomes(row, self._unit_s, CLEAR_DIFFERENCE) for row in seconds])
        self._add(_Targets(decisions.observation[chosen], decisions.legal[chosen], policy))
        assert self._targets is not None
        self._trainer.learn(*self._targets, steps=STEPS, generator=task.generator)
        proposer.params = self._trainer.params
        return improving_changes(seconds, decisions.at(chosen))

    def _add(self, new: _Targets) -> None:
        if self._targets is not None:
            new = _Targets(*(np.concatenate(parts)[-_MAX_ROWS:] for parts in zip(self._targets, new, strict=True)))
        self._targets = new


def improving_changes(seconds: NDArray[np.float64], decisions: Decisions) -> list[Change]:
    """Returns the preferences that lead to better games than the line's moves, best last.

    Args:
      seconds: `[N, M]` judged seconds of the game after each move; infinity for illegal moves. Where the line waits and
        the rules of the game forbid it, its own move has no outcome and none of the others is compared.
      decisions: the decisions, `N` of them.
    """
    own = seconds[np.arange(len(decisions.move)), decisions.move][:, None]
    known = np.isfinite(own) & np.isfinite(seconds)
    gains = np.where(known, own, 0.0) - np.where(known, seconds, 0.0)
    rows, moves = np.nonzero(gains > 0.0)
    order = np.argsort(gains[rows, moves], kind="stable")
    accesses, preferences = decisions.access[rows[order]], decisions.preference[rows[order], moves[order]]
    return list(zip(accesses.tolist(), preferences.tolist(), strict=True))


def _decisions_per_training(task: Task) -> int:
    """Returns the number of decisions whose games take their share of the budget."""
    if task.budget.seconds is None:
        return 32
    per_game_s = task.seconds / max(task.evaluations, 1)
    return int(np.clip(_GAMES_SHARE * task.budget.seconds / max(2.0 * per_game_s, 1e-9), 4, 400))
