"""Adds the rows of a relaxation that keep the buffers in fast memory within its capacity."""

import numpy as np

from ..program.program import Program
from ..program.target import Target
from .linear_program import Expression, LinearProgram
from .placement import Rules
from .touches import Touch


class CapacityRows:
    """Counts the memory in use at the instructions where memory can run short; the others need no row."""

    def __init__(
        self,
        program: Program,
        target: Target,
        linear: LinearProgram,
        rules: Rules,
        histories: dict[int, list[Touch]],
    ) -> None:
        """Chooses the instructions.

        Args:
          program, target: the problem.
          linear: takes the columns and rows.
          rules: freedoms of the mappings.
          histories: touches of each buffer that may be resident.
        """
        self._program, self._linear = program, linear
        self._unit_bytes = float(target.fast_bytes)
        self._capacity = rules.capacity_share * (target.fast_bytes - program.reserved)
        # Instruction -> share of fast memory in use while it runs.
        self._used = {t: Expression() for t in self._short_instructions(rules.most_capacity_rows, histories)}
        self._short = list(self._used)  # ascending
        short = np.zeros(program.num_instructions + 1, np.int64)
        short[[t + 1 for t in self._used]] = 1
        self._short_before = np.cumsum(short).tolist()

    def _short_instructions(self, most: int, histories: dict[int, list[Touch]]) -> list[int]:
        """Returns up to `most` instructions at which the buffers that may be resident do not all fit.

        Such instructions are cut into groups of equal length; the fullest of each group stands for it.
        """
        steps = self._program.num_instructions
        change = np.zeros(steps + 1)
        for buffer, history in histories.items():
            size, is_input = float(self._program.fast_size[buffer]), self._program.definition[buffer] < 0
            change[0 if is_input else history[0].instruction] += size
            change[steps if is_input or self._program.is_output[buffer] else history[-1].instruction + 1] -= size
        excess = np.cumsum(change)[:steps] - self._capacity
        short = np.flatnonzero(excess > 0)
        return [
            int(group[np.argmax(excess[group])])
            for group in np.array_split(short, min(most, len(short)) or 1)
            if len(group)
        ]

    def use(self, instruction: int, buffer: int, share: Expression) -> None:
        """Counts a share of a buffer as in use while an instruction runs."""
        if instruction in self._used:
            self._used[instruction].include(share, float(self._program.fast_size[buffer]) / self._unit_bytes)

    def use_at_touch(self, t: int, buffer: int, here: Expression, kept: Expression) -> None:
        """Counts the larger of two shares while a touch runs.

        Args:
          t: instruction of the touch.
          buffer: the buffer.
          here: share that the touch itself needs.
          kept: share that stays beyond the touch; without columns where `here` covers it.
        """
        if t not in self._used:
            return
        if not kept.terms:
            self.use(t, buffer, here)
            return
        both = Expression.of(self._linear.column())
        self._linear.at_least(both.add(here, -1.0))
        self._linear.at_least(both.add(kept, -1.0))
        self.use(t, buffer, both)

    def use_between(self, span: tuple[int, int], buffer: int, there: Expression, elsewhere: Expression | None) -> None:
        """Counts a share between two touches.

        Args:
          span: first and last instruction between the touches.
          buffer: the buffer.
          there: share that is resident.
          elsewhere: share that need not be resident, of a value that is still needed; None for a value that is not.
        """
        first, last = span
        if last < first or self._short_before[last + 1] == self._short_before[first]:
            return
        share = there
        if elsewhere is not None:
            share = Expression.of(self._linear.column())
            self._linear.at_least(share.add(there, -1.0))
            self._linear.at_least(share.add(elsewhere), 1.0)
        for number in range(self._short_before[first], self._short_before[last + 1]):
            self.use(self._short[number], buffer, share)

    def add_rows(self) -> None:
        """Adds a row for each of the instructions, after all buffers have been counted."""
        for t, used in self._used.items():
            self._linear.at_least(used.scaled(-1.0), -self._capacity[t] / self._unit_bytes)
