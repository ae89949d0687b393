"""Builds mappings from a solution of the relaxation: plans each buffer, then makes all of them fit into fast memory.

Residencies that do not fit are fetched later or left in HBM, the least valuable first.
"""

import numpy as np
from numpy.typing import NDArray

from ..packing.best_fit import best_fit
from ..packing.repack import groups, packing_of, repack
from ..physics.objective import Judge
from ..physics.simulator import simulate
from ..program.mapping import PREFETCH, WRITE_BACK, Mapping
from ..program.program import Program
from ..program.target import Target
from .buffer_plan import BufferPlan, BufferPlanner
from .deadline import NO_DEADLINE, Deadline
from .placement import Placement
from .solve import Stop

_SHEDDINGS = 40  # residencies given up, at most
_HURRIED = 60  # prefetches, at most, that are tried sooner


class MappingBuilder:
    """Builds one mapping from one rounding of a solution; its residencies get their offsets later, from a packer."""

    def __init__(
        self,
        program: Program,
        target: Target,
        placement: Placement,
        values: NDArray[np.float64],
        *,
        share: float,
        minor: bool,
        deadline: Deadline = NO_DEADLINE,
    ) -> None:
        """Plans all buffers.

        Args:
          program, target: the problem.
          placement: the meaning of the columns.
          values: `[columns]` of the solution.
          share: from this share on, a touch counts as fast.
          minor: place buffers that the relaxation left out too, if they need no copies.
          deadline: time limit of everything done here.

        Raises:
          TimeIsUp: the limit has passed; so do `fit`, `hurry` and `shed`.
        """
        self._program, self._target, self._deadline = program, target, deadline
        self._planner = BufferPlanner(program, placement, values)
        self._fast: dict[int, set[int]] = {}  # buffer -> instructions of the touches that are to be fast
        for (t, buffer), column in placement.fast.items():
            if values[column] >= share:
                self._fast.setdefault(buffer, set()).add(t)
        # The relaxation counts left-out buffers as fast at no cost. Intermediates can be: they need no copies.
        for buffer in placement.left_out if minor else ():
            if program.definition[buffer] >= 0 and not program.is_output[buffer]:
                self._fast[buffer] = {touch.instruction for touch in self._planner.histories[buffer]}
        self._cross_program = {b for b, column in placement.cross_program.items() if values[column] >= max(share, 0.5)}
        self._plans: dict[int, BufferPlan] = {}
        self._hurried: set[tuple[int, int]] = set()  # buffer and due instruction of prefetches tried sooner
        self._used = np.zeros(program.num_instructions, np.int64)
        # `[B]` the first and the last instruction of any stay of a buffer; none has first > last.
        self._first = np.full(program.num_buffers, program.num_instructions, np.int64)
        self._last = np.full(program.num_buffers, -1, np.int64)
        # Per buffer its stays, each with the first instruction that it serves if a prefetch fills it, else -1.
        self._served: dict[int, list[tuple[list[int], int]]] = {}
        for buffer in sorted(self._fast):
            self._plan(buffer)

    def _plan(self, buffer: int) -> None:
        """Makes the plan of a buffer, or makes it anew, and accounts for the memory it takes."""
        self._deadline.check()
        self._charge(buffer, -1)
        self._plans[buffer] = self._planner.plan(
            buffer, self._fast[buffer], cross_program=buffer in self._cross_program
        )
        self._charge(buffer, 1)
        stays = self._plans[buffer].stays
        self._first[buffer] = min((first for first, _ in stays), default=self._program.num_instructions)
        self._last[buffer] = max((last for _, last in stays), default=-1)
        self._served[buffer] = [
            (stay, self._first_use(buffer, stay) if self._is_fetched(buffer, stay) else -1) for stay in stays
        ]

    # ---- fitting into memory -----------------------------------------------------------------------------------------

    def _charge(self, buffer: int, sign: int) -> None:
        """Adds the memory of a buffer's plan to the memory in use (`sign` 1), or takes it away (-1)."""
        size = self._target.align(int(self._program.fast_size[buffer]))
        for first, last in self._plans.get(buffer, BufferPlan(set())).stays:
            self._used[first : last + 1] += sign * size

    def fit(self, capacity_share: float) -> None:
        """Fetches later, or not at all, until every instruction finds at most a share of fast memory in use."""
        most = self._most(capacity_share)
        while True:
            over = self._used - most
            t = int(np.argmax(over)) if len(over) else 0
            if not len(over) or over[t] <= 0:
                return
            here = [
                (buffer, stay, serves)
                for buffer in np.flatnonzero((self._first <= t) & (t <= self._last)).tolist()
                for stay, serves in self._served[buffer]
                if stay[0] <= t <= stay[1]
            ]
            fetched = [entry for entry in here if entry[2] > t]
            if fetched:
                buffer, stay, serves = max(fetched, key=lambda entry: int(self._program.fast_size[entry[0]]))
                self._planner.not_before[buffer, serves] = t
            else:
                buffer, stay, _ = min(here, key=lambda entry: (self._worth(entry[0], entry[1]), entry[0]))
                self._fast[buffer] -= {u for u in self._fast[buffer] if stay[0] <= u <= stay[1]}
                self._cross_program.discard(buffer)
            self._plan(buffer)

    def _most(self, capacity_share: float) -> NDArray[np.int64]:
        """Returns `[T]` the most bytes that may be in use at an instruction."""
        return np.floor((self._target.fast_bytes - self._program.reserved) * capacity_share).astype(np.int64)

    def hurry(self, judge: Judge, capacity_share: float, stop: Stop) -> None:
        """Issues prefetches that instructions wait for sooner, if memory is free and the judged latency falls."""
        most, best = self._most(capacity_share), judge.judge(self.mapping())
        for _ in range(_HURRIED):
            if stop():
                return
            wait_s = simulate(self._program, self._target, self.mapping(), judge.models[0]).wait_s
            late = [
                (buffer, copy)
                for buffer, plan in self._plans.items()
                for copy in plan.copies
                if copy[0] == PREFETCH and wait_s[copy[2]] > 0 and (buffer, copy[2]) not in self._hurried
            ]
            if not late:
                return
            buffer, copy = max(late, key=lambda pair: (wait_s[pair[1][2]], -pair[0]))
            self._hurried.add((buffer, copy[2]))
            stay = next(s for s in self._plans[buffer].stays if s[0] == copy[1] + 1)
            size, kept = self._target.align(int(self._program.fast_size[buffer])), copy[1]
            for earlier in (1, 2, 4, 8, 16, 32, 64):
                start = copy[1] = max(copy[3], kept - earlier)
                stay[0] = start + 1
                self._deadline.check()
                if np.any(self._used[start + 1 : kept + 1] + size > most[start + 1 : kept + 1]):
                    break
                found = judge.judge(self.mapping())
                if found < best:
                    best = found
                    self._used[start + 1 : kept + 1] += size
                    kept = start
                if start == copy[3]:
                    break
            copy[1], stay[0] = kept, kept + 1
            self._first[buffer] = min(self._first[buffer], stay[0])

    def shed(self) -> Mapping | None:
        """Gives up the least valuable residencies among those that best fit does not place, until it places all.

        Returns:
          A mapping that verifies, or None if too many residencies would have to go.
        """
        for _ in range(_SHEDDINGS):
            mapping = self.mapping()
            group = groups(mapping, self._program)
            packing, _ = packing_of(self._program, mapping, self._target, group)
            placed = best_fit(packing)
            out = np.flatnonzero(placed.offsets + packing.size > packing.capacity)
            if not len(out):
                return repack(self._program, mapping, self._target, seconds=0.0).mapping
            rows = mapping.residencies[np.isin(group, out), :3].tolist()
            buffer, first, last = min(rows, key=lambda row: (self._worth(row[0], row[1:3]), row))
            self._fast[buffer] -= {u for u in self._fast[buffer] if first <= u <= last}
            self._cross_program.discard(buffer)
            self._plan(buffer)
        return None

    def _first_use(self, buffer: int, stay: list[int]) -> int:
        """Returns the first instruction that a stay serves, or -1."""
        return min((t for t in self._plans[buffer].fast if stay[0] <= t <= stay[1]), default=-1)

    def _is_fetched(self, buffer: int, stay: list[int]) -> bool:
        return any(c[0] == PREFETCH and c[1] + 1 == stay[0] for c in self._plans[buffer].copies)

    def _worth(self, buffer: int, stay: list[int]) -> float:
        """Returns the worth of a stay: bytes served, loop trips counted, per byte of memory and root of its length."""
        served = sum(
            float(self._program.access_bytes[a] * self._program.weight[touch.instruction])
            for touch in self._planner.histories[buffer]
            if stay[0] <= touch.instruction <= stay[1]
            for a in touch.accesses
        )
        return served / (float(self._program.fast_size[buffer]) * (stay[1] - stay[0] + 1.0) ** 0.5)

    # ---- the mapping -------------------------------------------------------------------------------------------------

    def mapping(self) -> Mapping:
        """Returns the mapping. Its offsets only tell residencies apart: a packer chooses the real ones."""
        program = self._program
        fast = np.zeros(program.num_accesses, bool)
        residencies: list[list[int]] = []
        copies: list[list[int]] = []
        for buffer, plan in sorted(self._plans.items()):
            size = int(program.size[buffer])
            for touch in self._planner.histories[buffer]:
                fast[list(touch.accesses)] = touch.instruction in plan.fast
                fast[list(touch.slow)] = False
            for first, last in plan.stays:
                # All offsets differ, since the packer keeps residencies at equal offsets together.
                residencies.append([buffer, first, last, len(residencies) * self._target.alignment, 0, size])
            for direction, start, end, limit in plan.copies:
                if direction == WRITE_BACK:  # due as late as its stay and its reader allow
                    end = max(end, min(limit, 1 + max(b for a, b in plan.stays if a <= start <= b)))
                copies.append([buffer, direction, start, end, 0, size, buffer, -1])
        copies.sort(key=lambda copy: (copy[2], copy[3]))
        return Mapping(
            program.sha256,
            fast,
            np.array(residencies, np.int64).reshape(-1, 6),
            np.array(copies, np.int64).reshape(-1, 8),
            {"solver": "bound"},
        )
