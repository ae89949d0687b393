"""States kept along a game: changed games start from them, and long programs keep fewer."""

import numpy as np
import pytest

from mallocmuzero.env.game import current
from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.common.walk_changes import Search


def task() -> Task:
    return Task(load("resnet50-b32-v4"), None, "msa", Budget(None, 10**9), 0)


def test_fewer_kept_states_make_the_same_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for most_bytes in (2**26, 0):
        monkeypatch.setattr(current, "_MOST_BYTES", most_bytes)
        mine = task()
        walk = Walk(mine, np.full(len(mine.tables.access), COPY, np.int8), Search(gives_up=True))
        walk.step(400, 1e-6)
        found.append((walk.state(), len(walk.played.kept.bank) // len(mine.block)))
    assert found[0][0] == found[1][0]
    assert [states for _, states in found] == [24, 4]


def test_a_changed_game_is_judged_as_the_whole_game_of_its_plan() -> None:
    mine, other = task(), task()
    position = Position(mine.plan_game, np.full(len(mine.tables.access), COPY, np.int8))
    draw = np.random.default_rng(0)
    made = 0
    for number in draw.integers(0, len(position.changes.stay), 60):
        foretold = position.outcomes(np.array([number]))[0]
        before_s = position.seconds
        position.make(int(number))
        made += not np.isnan(foretold)
        assert position.seconds == (before_s if np.isnan(foretold) else foretold)
        assert position.seconds == other.play(position.plan)
    assert made > 20
