"""Mappings written from a finished assignment: instructions for times, rows for stays and copies."""

import numpy as np
from numpy.typing import NDArray

from ...env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from ...env.program.program import Program
from .problem import Accesses, Problem
from .state import FAST, HBM, State
from .write_rows import end_before_prefetches, residency_rows


class Writer:
    """Writes the mappings of one program.

    Attributes:
      defined: `[U]` time at which the value of each use is defined.
    """

    def __init__(self, program: Program, problem: Problem, accesses: Accesses) -> None:
        """Prepares the translation of times to instructions."""
        self._program, self._problem, self._accesses = program, problem, accesses
        value_of = np.repeat(np.arange(len(problem.value)), problem.value["end_use"] - problem.value["first_use"])
        self.defined: NDArray[np.int64] = problem.value["time"][value_of]
        times = np.arange(len(problem.nest) + 2)
        at = program.schedule_index.astype(np.int64)
        self._last_until: NDArray[np.int64] = np.searchsorted(at, times, side="right") - 1
        self._first_from: NDArray[np.int64] = np.searchsorted(at, times, side="left")

    def mapping(self, state: State) -> Mapping:
        """Returns the mapping of a finished assignment."""
        program, problem = self._program, self._problem
        stays = state.stay[: state.now.stays]
        buffer = problem.value["buffer"][stays["value"]]
        fast = np.zeros(program.num_accesses, bool)
        served = state.use["stay"]
        links = self._accesses.links[served[self._accesses.links[:, 0]] >= 0]
        fast[links[stays["memory"][served[links[:, 0]]] == FAST, 1]] = True
        born = stays["value"][(stays["memory"] == FAST) & (stays["is_copied"] == 0)]
        written = self._accesses.values[born]
        fast[written[written >= 0]] = True
        size = program.size[buffer]
        slices = state.slice[: state.now.slices]
        residencies = self._residencies(stays, slices, buffer, size)
        return Mapping(
            program.sha256,
            fast,
            residencies,
            self._copies(stays, slices, buffer, size),
            {"solver": "xla"},
        )

    def _residencies(
        self, stays: NDArray[np.void], slices: NDArray[np.void], buffer: NDArray[np.int64], size: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the rows of all stays in fast memory."""
        fast = stays["memory"] == FAST
        stays = stays[fast]
        until = self._last_until[np.minimum(stays["end"], len(self._last_until) - 1)]
        rows = np.array(
            [
                stays["group"],
                buffer[fast],
                self._first_from[stays["start"]],
                np.minimum(until, self._program.num_instructions - 1),
                stays["offset"],
                size[fast],
                stays["first_slice"],
                stays["slices"],
            ],
            np.int64,
        )
        lowest = slices["low"]
        parts = np.array([lowest, lowest + slices["bytes"], self._first_from[slices["begin"] + 1]], np.int64)
        return residency_rows(rows, parts, len(fast))

    def _copies(
        self, stays: NDArray[np.void], slices: NDArray[np.void], buffer: NDArray[np.int64], size: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Returns the rows of all copies, in the order of their start."""
        copied = np.flatnonzero(stays["is_copied"])
        of_stay = np.repeat(copied, np.maximum(stays["slices"][copied], 1))  # a row for each slice
        stay, whole = stays[of_stay], size[of_stay]
        program = self._program
        begin, done, sliced = stay["begin"], stay["done"], np.flatnonzero(stay["slices"])
        table = np.empty((len(stay), len(COPY_FIELDS)), np.int64)
        table[:, 0] = table[:, 6] = buffer[of_stay]
        table[:, 1] = np.where(stay["memory"] == HBM, WRITE_BACK, PREFETCH)
        table[:, 3] = self._first_from[done]
        table[:, 4], table[:, 5], table[:, 7] = 0, whole, -1
        if len(sliced):
            turn = sliced - np.searchsorted(of_stay, of_stay[sliced])
            part = slices[stay["first_slice"][sliced] + turn]
            begin[sliced] = part["begin"]
            table[sliced, 4], table[sliced, 5] = part["low"], part["low"] + part["bytes"]
        table[:, 2] = np.where(begin >= 0, self._last_until[np.maximum(begin, 0)], -1)
        table[stay["cross"] == 1, 1] = CROSS_PROGRAM
        for row in np.flatnonzero(stay["replaces"]).tolist():
            made = int(table[row, 0])
            table[row, 6], table[row, 7] = self._problem.buffer["copied_from"][made], program.definition[made]
        self._end_before_loops(table)
        end_before_prefetches(table, len(program.size))
        # Of copies that start together, write-backs come first, then the one due first.
        return table[np.lexsort((done, table[:, 1] != WRITE_BACK, begin))]

    def _end_before_loops(self, copies: NDArray[np.int64]) -> None:
        """Ends copies before the outermost loop that they would end in, if they start outside."""
        program = self._program
        for first, last in zip(program.loop_first[::-1].tolist(), program.loop_last[::-1].tolist(), strict=True):
            into = (copies[:, 2] < first) & (first < copies[:, 3]) & (copies[:, 3] <= last)
            copies[into, 3] = first
