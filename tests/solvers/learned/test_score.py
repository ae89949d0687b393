"""Scores of changes, and their placebos."""

from typing import Any

import numpy as np
import pytest
from guided_cases import PARAMETERS

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.residency.observation import STAY_FEATURES
from mallocmuzero.solvers.learned.score import SHUFFLED, UNTRAINED, check_params, make_score

ROWS = np.random.default_rng(0).normal(size=(20, STAY_FEATURES)).astype(np.float32)
STAY, PLACEMENT = np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20)


def test_shuffled_scores_are_the_same_numbers_elsewhere() -> None:
    trained = make_score(PARAMETERS)(ROWS, STAY, PLACEMENT)
    shuffled = make_score(PARAMETERS, SHUFFLED)(ROWS, STAY, PLACEMENT)
    assert not np.array_equal(trained, shuffled)
    np.testing.assert_array_equal(np.sort(trained), np.sort(shuffled))


def test_untrained_scores_depend_on_the_seed_alone() -> None:
    one, same, other = (make_score(PARAMETERS, UNTRAINED, seed)(ROWS, STAY, PLACEMENT) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one, make_score(PARAMETERS)(ROWS, STAY, PLACEMENT))


def test_an_unknown_placebo_is_refused() -> None:
    with pytest.raises(UserError, match="sugar"):
        make_score(PARAMETERS, "sugar")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"representation": {"input": {}}}, "game `access`"),
        (
            {
                "representation": {"encoder": {"dense_1": {"kernel": np.zeros((7, 4))}}},
                "outcome": {"dense": {"kernel": np.zeros((4, 2))}},
            },
            "another version",
        ),
    ],
)
def test_parameters_that_score_nothing_are_refused_by_file(params: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"my.policy: .*{message}"):
        check_params(params, "my.policy")
