"""The observation of a position: bounded, free of scale, and true to the game."""

import dataclasses

import numpy as np
import pytest

from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.residency.changes import HBM
from mallocmuzero.env.residency.observation import ACCESS_FEATURES, STAY_FEATURES, Observer
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.residency.static import LIMIT, STATIC_FEATURES
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task


def observed(
    name: str, preference: int = COPY, objective: str = "msa", speed: float = 1.0
) -> tuple[Position, np.ndarray]:
    program = load(name)
    if speed != 1.0:
        target = program.target
        bandwidths = {name: speed * getattr(target, name) for name in ("hbm_bandwidth", "fast_bandwidth")}
        target = dataclasses.replace(target, **bandwidths)
        program = dataclasses.replace(program, target=target, compute_s=program.compute_s / speed, production=None)
    task = Task(program, None, objective, Budget(None, 10**9), 0)
    position = Position(task.plan_game, np.full(len(task.tables.access), preference, np.int8))
    return position, Observer(position).observe()


@pytest.mark.parametrize("objective", ["msa", "robust"])
@pytest.mark.parametrize("name", ["tiny", "resnet50-b32-v4", "lstm-b128-s64-v4"])
def test_it_is_finite_and_bounded(name: str, objective: str) -> None:
    position, rows = observed(name, objective=objective)
    assert rows.shape == (len(position.changes.first), STAY_FEATURES)
    assert np.isfinite(rows).all()
    assert np.abs(rows).max() <= LIMIT + 4  # the logarithm of a count is not clipped


def test_it_repeats_and_follows_the_position() -> None:
    task = Task(load("alexnet-train-b128"), None, "msa", Budget(None, 10**9), 0)
    position = Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))
    observer = Observer(position)
    first = observer.observe().copy()
    np.testing.assert_array_equal(observer.observe(), first)
    outcomes = position.outcomes(np.arange(len(position.changes.stay)))
    position.make(int(np.nanargmin(outcomes)))
    assert not np.array_equal(observer.observe(), first)


def test_a_machine_twice_as_fast_looks_the_same() -> None:
    _, rows = observed("alexnet-train-b128")
    _, faster = observed("alexnet-train-b128", speed=2.0)
    np.testing.assert_allclose(faster, rows, atol=1e-3)


def test_with_everything_in_hbm_nothing_is_fast_and_all_memory_is_free() -> None:
    position, rows = observed("alexnet-train-b128", DROP)
    assert not rows[:, STATIC_FEATURES].any()  # the share of its accesses that are fast
    np.testing.assert_allclose(rows[:, STATIC_FEATURES + 13], 1.0)
    differing = rows[:, -5 + HBM]
    assert not differing.any()
    assert STAY_FEATURES > 3 * ACCESS_FEATURES
    assert position.seconds > 0.0
