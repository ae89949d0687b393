import numpy as np

from mallocmuzero.env.compiled.block import copy_block
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.workloads import load


def test_a_block_is_copied_whole_and_nothing_beside_it() -> None:
    source = np.arange(1, 1001, dtype=np.uint8)
    into = np.zeros((3, 1000), np.uint8)
    copy_block(source, into[1])
    assert np.array_equal(into[1], source)
    assert not into[[0, 2]].any()


def test_what_the_block_holds_goes_along() -> None:
    game, other = MallocGame(load("tiny")), MallocGame(load("tiny"))
    for _ in range(3):
        game.step(int(np.flatnonzero(game.legal)[0]))
    copy_block(game.block, other.block)
    for mine, copied in zip(game.state, other.state, strict=True):
        assert np.array_equal(mine, copied)
