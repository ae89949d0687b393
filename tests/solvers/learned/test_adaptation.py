"""Training on a program changes the proposer's parameters and finds changes that improve the plan."""

import numpy as np
import pytest
from guided_cases import NETWORK, fresh_params, make_task, plan_of

from mallocmuzero.learner.fine_tune import FineTuner
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.learned.adaptation import Adaptation, improving_changes
from mallocmuzero.solvers.learned.decisions import Decisions
from mallocmuzero.solvers.learned.proposer import Proposer
from mallocmuzero.solvers.learned.walk import GuidedWalk


def test_training_gives_the_proposer_new_parameters() -> None:
    task, proposer = make_task(), Proposer(NETWORK, fresh_params())
    plan = plan_of(task)
    task.play(plan)
    before = task.evaluations
    improvements = Adaptation(FineTuner(NETWORK, fresh_params())).train(task, plan, proposer)
    assert task.evaluations > before + 10
    assert proposer.params is not fresh_params()
    seconds = [
        task.play(np.where(np.arange(len(plan)) == access, preference, plan)) for access, preference in improvements
    ]
    assert len(seconds) > 3
    assert max(seconds) < task.play(plan)
    assert seconds == sorted(seconds, reverse=True)
    walk = GuidedWalk(task, plan, SEARCH, proposer)
    walk.suggest(improvements)
    assert walk.try_proposals(1) == 1
    assert walk.current_s == pytest.approx(min(seconds), rel=1e-12)


def test_improvements_are_known_where_the_line_s_own_move_is_legal() -> None:
    inf = np.inf
    decisions = Decisions(
        np.array([4, 7, 9]),
        np.array([0, 1, 2]),
        np.zeros((3, NETWORK.config.observation_size), np.float32),
        np.array([[True, True, True], [True, False, True], [True, True, True]]),
        np.array([[0, 1, 2], [0, 1, 2], [0, 1, 2]], np.int8),
    )
    seconds = np.array([[5.0, 4.0, 6.0], [3.0, inf, 2.0], [1.0, inf, 3.0]])
    assert improving_changes(seconds, decisions) == [(4, 1), (9, 0)]  # the line waits at 7, which is no move
