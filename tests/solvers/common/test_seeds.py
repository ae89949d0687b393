"""The seeds of workers."""

from mallocmuzero.solvers.common.seeds import worker_seeds


def test_the_first_worker_has_the_seed_itself_and_neighbours_share_none() -> None:
    assert worker_seeds(5, 3)[0] == 5
    assert worker_seeds(5, 3)[:2] == worker_seeds(5, 2)
    assert len({seed for first in range(20) for seed in worker_seeds(first, 8)}) == 20 * 8
