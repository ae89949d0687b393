import numpy as np

from mallocmuzero.env.compiled.block import copy_elements
from mallocmuzero.env.compiled.kernel import kernel, vector
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.workloads import load


@kernel(vector(np.float64), int, vector(np.float64), int, int)
def _copy(source: np.ndarray, source_at: int, into: np.ndarray, into_at: int, count: int) -> None:
    copy_elements(source, source_at, into, into_at, count)


def test_elements_are_copied_and_nothing_beside_them() -> None:
    source, into = np.arange(1.0, 1001.0), np.zeros(3000)
    _copy(source, 10, into, 1000, 500)
    assert np.array_equal(into[1000:1500], source[10:510])
    assert not into[:1000].any()
    assert not into[1500:].any()
    _copy(source, 0, into, 0, 0)
    assert not into[:1000].any()


def test_the_block_of_a_game_holds_its_state() -> None:
    game, other = MallocGame(load("tiny")), MallocGame(load("tiny"))
    for _ in range(3):
        game.step(int(np.flatnonzero(game.legal)[0]))
    other.block[:] = game.block
    for name in ("access_fast", "buffer", "step", "holders", "residency", "copy", "queue", "untouched", "now"):
        assert np.array_equal(getattr(game.state, name), getattr(other.state, name)), name
