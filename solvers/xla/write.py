"""Mappings written from a finished assignment: instructions for times, rows for stays and copies."""

import numpy as np
from numpy.typing import NDArray

from ...env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ...env.program.program import Program
from .problem import Accesses, Problem
from .state import FAST, HBM, State


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
        fast[links[:, 1]] = stays["memory"][served[links[:, 0]]] == FAST
        born = stays["value"][(stays["memory"] == FAST) & (stays["is_copied"] == 0)]
        written = self._accesses.values[born]
        fast[written[written >= 0]] = True
        size = program.size[buffer]
        residencies = self._residencies(state, stays, buffer, size)
        copies: list[tuple[int, ...]] = []
        for number in np.flatnonzero(stays["is_copied"]).tolist():
            self._copy(copies, state, stays[number], int(buffer[number]), int(size[number]))
        _end_before_prefetches(copies)
        # Of copies that start together, write-backs come first, then the one due first.
        copies.sort(key=lambda copy: (copy[-2], copy[1] != WRITE_BACK, copy[-1]))
        return Mapping(
            program.sha256,
            fast,
            np.array(residencies, np.int64).reshape(-1, len(RESIDENCY_FIELDS)),
            np.array([copy[:-2] for copy in copies], np.int64).reshape(-1, len(COPY_FIELDS)),
            {"solver": "xla"},
        )

    def _residencies(
        self, state: State, stays: NDArray[np.int64], buffer: NDArray[np.int64], size: NDArray[np.int64]
    ) -> list[list[int]]:
        """Returns the rows of all stays in fast memory; a stay that meets another of its group prolongs its rows."""
        fast = stays["memory"] == FAST
        stays = stays[fast]
        until = self._last_until[np.minimum(stays["end"], len(self._last_until) - 1)]
        columns = (
            stays["group"],
            buffer[fast],
            self._first_from[stays["start"]],
            np.minimum(until, self._program.num_instructions - 1),
            stays["offset"],
            size[fast],
            stays["slices"],
        )
        table: list[list[int]] = []
        rows_of: dict[int, list[list[int]]] = {}  # by group
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for number, (group, own, first, last, offset, whole, slices) in enumerate(rows):
            before = rows_of.setdefault(group, [])
            joined = [known for known in before if known[2] >= first]
            if joined:
                for known in joined:
                    known[2] = max(known[2], last)
                continue
            if slices:
                parts = self._parts(state, stays[number])
                added = [
                    [own, begin, last, offset, low, low + part]
                    for low, part, start in parts
                    if (begin := int(self._first_from[start])) <= last
                ]
            else:
                added = [[own, first, last, offset, 0, whole]] if first <= last else []
            table += added
            before += added
        return table

    def _parts(self, state: State, stay: np.void) -> list[tuple[int, int, int]]:
        """Returns lowest byte, bytes and first time of each slice of a stay."""
        parts = state.slice[stay["first_slice"] : stay["first_slice"] + stay["slices"]]
        return [(low, part, begin + 1) for begin, low, part in parts.tolist()]

    def _copy(self, table: list[tuple[int, ...]], state: State, stay: np.void, buffer: int, size: int) -> None:
        """Appends the copies that fill a stay, with their times as two more columns."""
        done, begin = int(stay["done"]), int(stay["begin"])
        end = int(self._first_from[done])
        direction = WRITE_BACK if stay["memory"] == HBM else PREFETCH
        if stay["cross"] == 1:
            table.append((buffer, CROSS_PROGRAM, -1, end, 0, size, buffer, -1, -1, done))
            return
        if stay["slices"] == 0:
            first = int(self._last_until[begin]) if begin >= 0 else -1
            table.append((buffer, direction, first, end, 0, size, buffer, -1, begin, done))
            return
        for low, part, start in self._parts(state, stay):
            first = int(self._last_until[start - 1]) if start > 0 else -1
            table.append((buffer, direction, first, end, low, low + part, buffer, -1, start - 1, done))


def _end_before_prefetches(copies: list[tuple[int, ...]]) -> None:
    """Ends a write-back before a prefetch of the same buffer starts, where both fall between the same instructions.

    The compiler's schedule has more times than a program has instructions: in it the two copies do not overlap.
    """
    homes: dict[int, list[int]] = {}
    for index, copy in enumerate(copies):
        if copy[1] == WRITE_BACK:
            homes.setdefault(copy[0], []).append(index)
    for number, (buffer, direction, first, end, *rest) in enumerate(list(copies)):
        for index in homes.get(buffer, ()) if direction != WRITE_BACK else ():
            home = copies[index]
            if not home[2] <= first < home[3]:
                continue
            if home[2] == first and first + 1 < end:
                first += 1
                copies[number] = (buffer, direction, first, end, *rest)
            copies[index] = (*home[:3], max(first, home[2] + 1), *home[4:])
