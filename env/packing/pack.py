"""Solves packing problems: tries rules first, then the exact search, which may prove that no packing exists."""

import threading
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from . import exact
from .best_fit import best_fit
from .exact_state import new_work, tables_of
from .portfolio import rounds
from .problem import Packing, collisions

FEASIBLE = "feasible"
INFEASIBLE = "infeasible"
UNDECIDED = "undecided"

# Nodes that each order may take in the first round, and how many times as many in each further one.
_FIRST_NODES, _GROWTH = 2000, 1.5


@dataclass(frozen=True, eq=False)
class Packed:
    """The result of packing.

    Attributes:
      status: `feasible` (with `offsets`), `infeasible` (proved), or `undecided` (the limit came first).
      offsets: `[n]` bytes, checked; None without a solution.
      method: `best-fit`, `exact`, or `load` (more bytes are alive at once than fit).
      load: most bytes alive at once.
      best_fit_peak: bytes that the best rule needs.
      nodes: nodes of the exact search.
      seconds: time spent.
    """

    status: str
    offsets: NDArray[np.int64] | None
    method: str
    load: int
    best_fit_peak: int
    nodes: int
    seconds: float


def pack(packing: Packing, seconds: float | None = 60.0, nodes: int | None = None, rules: bool = True) -> Packed:
    """Solves a packing problem.

    Args:
      packing: the problem.
      seconds: limit of the exact search; None for none.
      nodes: limit of the exact search in nodes, the same on every machine; None for none.
      rules: try best fit first.

    Raises:
      UserError: a limit is negative.
      KeyboardInterrupt: Ctrl-C; the search has ended.
    """
    if (seconds is not None and not seconds >= 0) or (nodes is not None and nodes < 0):
        raise UserError(f"limits of {seconds} seconds and {nodes} nodes cannot be kept; give positive ones")
    begin = time.perf_counter()
    placed = best_fit(packing)

    def result(status: str, offsets: NDArray[np.int64] | None, method: str, done: int) -> Packed:
        if offsets is not None:
            wrong = collisions(packing, offsets)
            if wrong:
                raise RuntimeError(f"the {method} packer broke the rules: {wrong[0]}")
        return Packed(status, offsets, method, packing.load, placed.peak, done, time.perf_counter() - begin)

    if packing.load > -(-packing.capacity // packing.alignment) * packing.alignment:
        return result(INFEASIBLE, None, "load", 0)
    if rules and placed.peak <= packing.capacity:
        return result(FEASIBLE, placed.offsets, "best-fit", 0)
    search = _Search(packing)
    status = search.run(None if seconds is None else begin + seconds, nodes)
    if status == exact.SOLVED:
        return result(FEASIBLE, search.work.placed["offset"] * packing.alignment, "exact", search.nodes)
    return result(INFEASIBLE if status == exact.INFEASIBLE else UNDECIDED, None, "exact", search.nodes)


class _Search:
    """The exact search in a thread of its own. Compiled code releases the GIL, so the clock and Ctrl-C can stop it."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self.work = new_work(packing)
        self.nodes = 0
        self._status = exact.STOPPED
        self._error: BaseException | None = None

    def run(self, until: float | None, nodes: int | None) -> int:
        """Returns `SOLVED`, `INFEASIBLE` or `STOPPED`."""
        thread = threading.Thread(target=self._rounds, args=(nodes,), daemon=True)
        thread.start()
        try:
            while thread.is_alive():
                left = 0.2 if until is None else until - time.perf_counter()
                if left <= 0:
                    self.work.now.stop = 1
                    left = 0.2
                thread.join(min(left, 0.2))
        except BaseException:
            self.work.now.stop = 1
            thread.join()
            raise
        if self._error is not None:
            raise self._error
        return self._status

    def _rounds(self, nodes: int | None) -> None:
        """Searches with one order after the other, restarting with more nodes, until one search ends."""
        try:
            allowed = _FIRST_NODES
            for orders in rounds(self._packing):
                for order in orders:
                    most = allowed if nodes is None else min(allowed, nodes - self.nodes)
                    status = exact.search(tables_of(self._packing, order.rank), self.work, most, order.live)
                    self.nodes += int(min(self.work.now.nodes, most))
                    out_of_nodes = nodes is not None and self.nodes >= nodes
                    if status != exact.STOPPED or self.work.now.stop or out_of_nodes:
                        self._status = status
                        return
                allowed = int(allowed * _GROWTH)
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            self._error = error
