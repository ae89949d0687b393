"""The seeds of several processes that search at once."""

import numpy as np


def worker_seeds(seed: int, workers: int) -> list[int]:
    """Returns a seed for each worker: `seed` itself for the first, and for the others numbers that no neighbouring
    seed leads to."""
    derived = [int(np.random.SeedSequence([seed, number]).generate_state(1)[0]) for number in range(1, workers)]
    return [seed, *derived]
