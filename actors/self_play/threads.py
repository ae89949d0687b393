"""Threads that share the games of a batch."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

# Fewer games than this are not worth a thread of their own.
GAMES_PER_THREAD = 4

_Item = TypeVar("_Item")


class Threads:
    """Threads for the games of a batch.

    Attributes:
      threads: how many.
    """

    def __init__(self, games: int, threads: int = 0) -> None:
        """Prepares for a number of games, with at most `threads` threads; 0 for as many as `OMP_NUM_THREADS` allows
        numerical code, or without it as there are cores."""
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        most = threads or (int(allowed) if allowed.isdecimal() else 0) or cores
        self.threads = max(1, min(most, games // GAMES_PER_THREAD))
        # Each thread calls numerical code, which must not start threads itself.
        self._blas = ThreadpoolController().select(user_api="blas") if self.threads > 1 else None
        self._pool = ThreadPoolExecutor(self.threads, "games") if self.threads > 1 else None

    def share(self, work: Any, addresses: NDArray[np.int64], *arguments: Any) -> None:
        """Calls the kernel `work(addresses, first, last, *arguments)` for shares of the `addresses[B]`, one a game."""
        games = len(addresses)
        if self._pool is None or games < 2 * GAMES_PER_THREAD:
            work(addresses, 0, games, *arguments)
            return
        # More shares than threads: games differ in length.
        count = min(4 * self.threads, -(-games // GAMES_PER_THREAD))
        bounds = np.linspace(0, games, count + 1).astype(int).tolist()
        shares = pairwise(bounds)
        for done in [self._pool.submit(work, addresses, first, last, *arguments) for first, last in shares]:
            done.result()

    def each(self, work: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """Calls `work` for each item, which pays if most of it is numerical code that lets other threads run."""
        if self._pool is None or self._blas is None:
            for item in items:
                work(item)
            return
        with self._blas.limit(limits=1):
            for done in [self._pool.submit(work, item) for item in items]:
                done.result()
