"""Mappings written from a finished assignment: instructions for times, rows for stays and copies."""

import numpy as np
from numpy.typing import NDArray

from ...env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ...env.program.program import Program
from .problem import B_SIZE, V_BUFFER, V_FIRST, V_LAST, V_TIME, Accesses, Problem
from .state import (
    A_BEGIN,
    A_COPY,
    A_CROSS,
    A_DONE,
    A_END,
    A_FAST,
    A_GROUP,
    A_LOW,
    A_OFFSET,
    A_SLICES,
    A_START,
    A_VALUE,
    FAST,
    N_STAYS,
    S_BEGIN,
    S_LOW,
    S_SIZE,
    State,
)


class Writer:
    """Writes the mappings of one program.

    Attributes:
      defined: `[U]` time at which the value of each use is defined.
    """

    def __init__(self, program: Program, problem: Problem, accesses: Accesses) -> None:
        """Prepares the translation of times to instructions."""
        self._program, self._problem, self._accesses = program, problem, accesses
        value_of = np.repeat(np.arange(len(problem.value)), problem.value[:, V_LAST] - problem.value[:, V_FIRST])
        self.defined: NDArray[np.int64] = problem.value[value_of, V_TIME]
        times = np.arange(len(problem.nest) + 2)
        at = program.schedule_index.astype(np.int64)
        self._last_until: NDArray[np.int64] = np.searchsorted(at, times, side="right") - 1
        self._first_from: NDArray[np.int64] = np.searchsorted(at, times, side="left")

    def mapping(self, state: State) -> Mapping:
        """Returns the mapping of a finished assignment."""
        program, problem = self._program, self._problem
        stays = state.stay[: state.counts[N_STAYS]]
        buffer = problem.value[stays[:, A_VALUE], V_BUFFER]
        fast = np.zeros(program.num_accesses, bool)
        served = state.serves
        links = self._accesses.links[served[self._accesses.links[:, 0]] >= 0]
        fast[links[:, 1]] = stays[served[links[:, 0]], A_FAST] == FAST
        born = stays[(stays[:, A_FAST] == FAST) & (stays[:, A_COPY] == 0), A_VALUE]
        written = self._accesses.values[born]
        fast[written[written >= 0]] = True
        size = problem.buffer[buffer, B_SIZE]
        residencies = self._residencies(state, stays, buffer, size)
        copies: list[tuple[int, ...]] = []
        copied = stays[:, A_COPY] > 0
        for row, own, whole in zip(*(column[copied].tolist() for column in (stays, buffer, size)), strict=True):
            self._copy(copies, state, row, own, whole)
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
        fast = stays[:, A_FAST] > 0
        stays = stays[fast]
        until = self._last_until[np.minimum(stays[:, A_END], len(self._last_until) - 1)]
        columns = (
            stays[:, A_GROUP],
            buffer[fast],
            self._first_from[stays[:, A_START]],
            np.minimum(until, self._program.num_instructions - 1),
            stays[:, A_OFFSET],
            size[fast],
            stays[:, A_SLICES],
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
                parts = self._parts(state, stays[number].tolist(), whole)
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

    def _parts(self, state: State, row: list[int], size: int) -> list[tuple[int, int, int]]:
        """Returns lowest byte, bytes and first time of each slice of a stay."""
        if row[A_SLICES] == 0:
            return [(0, size, row[A_START])]
        parts = state.part[row[A_LOW] : row[A_LOW] + row[A_SLICES]]
        return [(part[S_LOW], part[S_SIZE], part[S_BEGIN] + 1) for part in parts.tolist()]

    def _copy(self, table: list[tuple[int, ...]], state: State, row: list[int], buffer: int, size: int) -> None:
        """Appends the copies that fill a stay, with their times as two more columns."""
        end = int(self._first_from[row[A_DONE]])
        direction = PREFETCH if row[A_FAST] else WRITE_BACK
        if row[A_CROSS] == 1:
            table.append((buffer, CROSS_PROGRAM, -1, end, 0, size, buffer, -1, -1, row[A_DONE]))
            return
        if row[A_SLICES] == 0:
            begin = row[A_BEGIN]
            first = int(self._last_until[begin]) if begin >= 0 else -1
            table.append((buffer, direction, first, end, 0, size, buffer, -1, begin, row[A_DONE]))
            return
        for low, part, start in self._parts(state, row, size):
            first = int(self._last_until[start - 1]) if start > 0 else -1
            table.append((buffer, direction, first, end, low, low + part, buffer, -1, start - 1, row[A_DONE]))


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
