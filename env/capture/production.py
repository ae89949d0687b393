"""Turns MSA's allocations into XLA's production mapping (pipeline step 4): fast accesses, residencies, copies."""

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import OPERAND
from ..program.residencies import fit_to_loops, merge_residencies
from .allocation import Allocation
from .compiled_schedule import CompiledSchedule
from .copy_names import with_copy_names
from .extract import Extraction
from .gaps import place_in_gaps
from .hlo import Module, Position, Shape, ShapeIndex, behind
from .log import CompilerLog
from .simulator_events import SimulatorEvents, simulator_events
from .values import FORWARDING

_SLICED = "Sliced Copy Allocation"
# A copy moves next to nothing if it is no more than this share of the bytes that a program accesses.
_NEXT_TO_NOTHING = 1e-3


@dataclass(frozen=True)
class Slice:
    """One copy of a sliced prefetch.

    Attributes:
      start_name, done_name: the instructions that issue the copy and wait for it.
      low, high: its bytes of the buffer.
    """

    start_name: str
    done_name: str
    low: int
    high: int


@dataclass(frozen=True)
class Production:
    """XLA's mapping, and what is needed to emulate the compiler's own estimate of it.

    Attributes:
      mapping: the production mapping.
      events: those of MSA's simulator.
      allocated_operands: operand accesses that MSA's allocations list as their uses.
      results_counted_again: result accesses whose value a sliced prefetch fetches, one for each such prefetch.
      counts: copies by kind.
      inexpressible: count, by reason, of what a `Mapping` cannot express.
      unallocated: buffers that MSA listed and then left in HBM without an allocation.
      pauses: instructions that the program leaves out, at whose time a value has been written back and a fetch of it
        begins.
    """

    mapping: Mapping
    events: SimulatorEvents
    allocated_operands: list[int]
    results_counted_again: list[int]
    counts: dict[str, int]
    inexpressible: dict[str, int]
    unallocated: list[int]
    pauses: frozenset[str]


def read_production(extraction: Extraction, module: Module, log: CompilerLog) -> Production:
    """Builds the production mapping.

    Args:
      extraction: the program.
      module: the compiled module, after memory space assignment.
      log: MSA's log.

    Raises:
      FormatError: module and log are of different compilations.
    """
    return _Reader(extraction, module, log).read()


class _Reader:
    """Collects residencies and copies from MSA's allocations."""

    def __init__(self, extraction: Extraction, module: Module, log: CompilerLog) -> None:
        self.extraction, self.program = extraction, extraction.program
        self.schedule = CompiledSchedule(extraction, module, log)
        space = log.options.get("alternate_memory_space", 1)
        self.log = replace(log, allocations=with_copy_names(log.allocations, self.schedule, space))
        self.fast = np.zeros(self.program.num_accesses, bool)
        self.residencies: list[tuple[int, ...]] = []
        self.copies: list[tuple[int, tuple[int, ...]]] = []
        self.allocated_operands: set[int] = set()
        self.counted_again: list[int] = []
        self.allocated: set[int] = set()
        self.read_instead: set[int | None] = set()
        self.counts: Counter[str] = Counter()
        self.inexpressible: Counter[str] = Counter()

    def read(self) -> Production:
        for allocation in self.log.allocations:
            values = self.extraction.values
            if allocation.position[0] in values.elsewhere or values.is_carried_slice(allocation.position):
                continue
            buffer = self._buffer(allocation.position)
            if buffer is not None and self._is_ahead_of_a_pass(allocation, buffer):
                self.inexpressible["small prefetch ahead of a pass's first instruction, read from HBM instead"] += 1
                self.read_instead |= {self.extraction.access_of.get(use) for use in allocation.uses}
                self.allocated.add(buffer)
                continue
            self._list_uses(allocation)
            if buffer is None:
                self.inexpressible[f"allocation of an unknown value ({allocation.kind})"] += 1
                continue
            # A copy that replaces a synchronous instruction is an allocation of that instruction's result.
            self.allocated.add(self.extraction.buffer_of.get((allocation.replaces or "", ()), buffer))
            if allocation.fast:
                self._fast_accesses(allocation)
            if allocation.copy_start is None:
                if allocation.fast:
                    self._reside(allocation, buffer, allocation.start)
            elif allocation.kind == "Copy Allocation":
                self._copy(allocation, buffer)
            elif allocation.kind == _SLICED:
                self._sliced(allocation, buffer)
            else:
                self.inexpressible[f"{allocation.kind} as a copy"] += 1
        self.copies.sort(key=lambda copy: copy[0])
        self.copies = _in_turn(self.copies, self.schedule.passed_over)
        schedule = self.schedule
        later = place_in_gaps(
            *(self.copies, self.residencies, schedule.waits), schedule.replaced, schedule.idle, self.program
        )
        if later:
            self.counts["later"] = len(later)
        self._compare_memory_spaces()
        columns = self.program.access_buffer[self.fast], self.program.access_instruction[self.fast]
        used = set(zip(*(column.tolist() for column in columns), strict=True))
        for _, (buffer, direction, start, end, *_) in self.copies:
            if direction == WRITE_BACK:  # It reads its source until it is complete.
                used |= {(buffer, instruction) for instruction in range(start, end)}
        residencies = merge_residencies(_table(self.residencies, len(RESIDENCY_FIELDS)))
        mapping = Mapping(
            program_sha256=self.program.sha256,
            access_fast=self.fast,
            residencies=fit_to_loops(residencies, self.program, self.inexpressible, used),
            copies=_table([copy for _, copy in self.copies], len(COPY_FIELDS)),
            origin={"solver": "xla"},
        )
        unallocated = [b for b in np.flatnonzero(self.program.fast_allowed).tolist() if b not in self.allocated]
        return Production(
            mapping=mapping,
            events=simulator_events(self.extraction, schedule, self.log, self.copies, later),
            allocated_operands=sorted(self.allocated_operands),
            results_counted_again=sorted(self.counted_again),
            counts=dict(self.counts),
            inexpressible=dict(self.inexpressible),
            unallocated=unallocated,
            pauses=self._pauses(),
        )

    def _is_ahead_of_a_pass(self, allocation: Allocation, buffer: int) -> bool:
        """Returns whether a copy starts in every pass of a loop, but ahead of all instructions that a program keeps of
        the pass. No copy of a `Mapping` can; if it moves next to nothing, its reads count as served from HBM."""
        program = self.program
        if not allocation.fast or allocation.copy_start is None or allocation.copy_done is None:
            return False
        before, until = self.schedule.last_until(allocation.copy_start), self.schedule.first_from(allocation.copy_done)
        for loop, (begins, *_) in enumerate(self.extraction.nest.times):
            first, last = int(program.loop_first[loop]), int(program.loop_last[loop])
            if begins <= allocation.copy_start and before < first <= until <= last:
                moved = float(program.size[buffer] * program.weight[first])
                weighed = program.access_bytes * program.weight[program.access_instruction]
                return moved <= _NEXT_TO_NOTHING * float(weighed.sum())
        return False

    def _list_uses(self, allocation: Allocation) -> None:
        """Notes what the compiler's estimates price as fast because of an allocation."""
        uses = (self.extraction.access_of.get(use) for use in allocation.uses)
        self.allocated_operands |= {access for access in uses if access is not None}
        result = self.extraction.result_of.get(allocation.position)
        if allocation.fast and result is not None and self.program.access_kind[result] == OPERAND:
            self.allocated_operands.add(result)  # an operand that a collective's start returns
        if allocation.fast and allocation.kind == _SLICED and result is not None:
            self.counted_again.append(result)

    def _buffer(self, position: Position) -> int | None:
        values = self.extraction.values
        if position[0] not in values.instructions:
            return None
        return self.extraction.buffer_of.get(values.resolve(*position))

    def _compare_memory_spaces(self) -> None:
        """Compares the fast accesses of the log with the memory spaces in the compiled text."""
        space = self.log.options.get("alternate_memory_space", 1)
        arrays: dict[str, dict[ShapeIndex, Shape]] = {}
        located: list[tuple[str, int | None, ShapeIndex, int]] = []
        located += [(name, number, path, a) for (name, number, path), a in self.extraction.access_of.items()]
        located += [(name, None, path, a) for (name, path), a in self.extraction.result_of.items()]
        for user, operand, path, access in located:
            instruction = self.schedule.instructions.get(user)
            if instruction is None:  # Replaced by a copy.
                continue
            if access in self.read_instead:
                continue
            name = user if operand is None else instruction.operands[operand]
            if name not in arrays:
                arrays[name] = dict(self.schedule.instructions[name].shape.leaves())
            if (arrays[name][path].memory_space == space) != self.fast[access]:
                self.inexpressible["access whose memory space differs in the compiled text"] += 1
            is_split, expected = arrays[name][path].is_split, self.program.is_split[self.program.access_buffer[access]]
            if is_split and not expected:
                self.inexpressible["access to an array that is split over the cores of the chip"] += 1
            elif self.fast[access] and expected and not is_split:
                self.inexpressible["access to an array that is whole, but split over cores in the program"] += 1

    def _pauses(self) -> frozenset[str]:
        """Returns the instructions that `Production.pauses` names."""
        schedule = self.schedule
        ended: defaultdict[int | None, list[int]] = defaultdict(list)
        begun: list[tuple[int | None, int]] = []
        for copy in self.log.allocations:
            if copy.copy_start is None or copy.copy_done is None:
                continue
            if copy.fast:
                begun.append((self._buffer(copy.position), copy.copy_start))
            else:
                ended[self._buffer(copy.position)].append(copy.copy_done)
        found: set[str] = set()
        for buffer, start in begun:
            name, before = self.log.schedule.get(start, ""), schedule.last_until(start)
            if name not in self.extraction.values.instructions or name in schedule.index:
                continue
            if any(done <= start and schedule.last_until(done - 1) == before for done in ended.get(buffer, ())):
                found.add(name)
        instructions = self.extraction.values.instructions
        return frozenset(name for name in found if instructions[name].opcode in FORWARDING)

    def _fast_accesses(self, allocation: Allocation) -> None:
        accesses = [self.extraction.access_of.get(use) for use in allocation.uses]
        if allocation.copy_start is None:
            accesses.append(self.extraction.result_of.get(allocation.position))
        for access in accesses:
            if access is not None:
                self.fast[access] = True

    def _reside(self, allocation: Allocation, buffer: int, start: int, low: int = 0, high: int | None = None) -> None:
        size = int(self.program.size[buffer])
        first, last = self.schedule.first_from(start), self.schedule.last_until(allocation.end)
        if allocation.end >= len(self.log.schedule):
            last = self.program.num_instructions - 1
        if first <= last:
            self.residencies.append((buffer, first, last, allocation.offset, low, size if high is None else high))

    def _copy(self, allocation: Allocation, buffer: int) -> None:
        start, done = allocation.copy_start, allocation.copy_done
        assert start is not None
        assert done is not None
        size = int(self.program.size[buffer])
        if not allocation.fast:
            if not allocation.source_fast:
                self.inexpressible["copy from HBM to HBM"] += 1
                return
            self._issue(allocation, allocation.start_name, buffer, WRITE_BACK, start, done, 0, size)
            return
        if allocation.source_fast:
            self.inexpressible["copy from fast memory to fast memory"] += 1
            return
        if allocation.replaces is not None:
            buffer = self._replacing(allocation)
            size = int(self.program.size[buffer])
        self._reside(allocation, buffer, allocation.start)
        started = self.schedule.instructions.get(allocation.start_name or "")
        crossing = started is not None and "cross_program_prefetch_index" in started.attributes
        direction = CROSS_PROGRAM if crossing else PREFETCH
        self._issue(allocation, allocation.start_name, buffer, direction, -1 if crossing else start, done, 0, size)

    def _replacing(self, allocation: Allocation) -> int:
        """Returns the buffer of the synchronous copy or slice that an allocation replaces."""
        assert allocation.replaces is not None
        return self.extraction.buffer_of[allocation.replaces, ()]

    def _sliced(self, allocation: Allocation, buffer: int) -> None:
        if allocation.replaces is not None:
            buffer = self._replacing(allocation)
        slices = self._slices(allocation)
        if not slices:
            self.inexpressible["sliced prefetch whose slices are not in the compiled module"] += 1
            self._reside(allocation, buffer, allocation.start)
            return
        assert allocation.copy_start is not None
        assert allocation.copy_done is not None
        self.counts["sliced_prefetches"] += 1
        for part in slices:
            # The compiled text has no place for what a program keeps although it moves nothing.
            start = max(self.schedule.time_before(part.start_name), allocation.copy_start)
            self._issue(allocation, part.start_name, buffer, PREFETCH, start, allocation.copy_done, part.low, part.high)
            self._reside(allocation, buffer, start + 1, part.low, part.high)

    def _issue(
        self,
        allocation: Allocation,
        name: str | None,
        buffer: int,
        direction: int,
        start: int,
        done: int,
        low: int,
        high: int,
    ) -> None:
        first, end = (-1 if start < 0 else self.schedule.last_until(start)), self.schedule.first_from(done)
        if done >= len(self.log.schedule):
            end = self.program.num_instructions
        if self._enters_a_loop(first, end):
            # MSA may ask for a copy by a time inside a loop; the compiled program waits before the loop.
            wait = self.schedule.wait_for(name)
            end = end if wait is None else wait
        self.counts[("prefetches", "write_backs", "cross_program")[direction]] += 1
        place = self.schedule.place.get(name or "", -1)
        if place < 0:
            self.inexpressible["copy that is not in the compiled module"] += 1
        source, replaces = buffer, -1
        if allocation.replaces is not None:
            self.counts["replacing"] += 1
            source = self.extraction.buffer_of[self.extraction.values.resolve(*allocation.position)]
            replaces = self.schedule.index[allocation.replaces]
        self.copies.append((place, (buffer, direction, first, end, low, high, source, replaces)))

    def _enters_a_loop(self, start: int, end: int) -> bool:
        """Returns whether a copy starts before a loop and would end inside it."""
        loops = zip(self.program.loop_first.tolist(), self.program.loop_last.tolist(), strict=True)
        return any(start < first < end <= last for first, last in loops)

    def _slices(self, allocation: Allocation) -> list[Slice]:
        """Returns the slices of a sliced prefetch, found from an instruction that uses the joined slices."""
        for name, number, path in allocation.uses:
            user = self.schedule.instructions.get(name)
            if user is None or number >= len(user.operands):
                continue
            maker, _ = behind(self.schedule.instructions, user.operands[number], path)
            joined = self.schedule.instructions[maker]
            if joined.attribute("custom_call_target") != '"ConcatBitcast"':
                continue
            parts = []
            for done in joined.operands:
                exported = self.log.exported.get((done, ()))
                if exported is None:
                    return []
                low = exported[0] - allocation.offset
                parts.append(Slice(self.schedule.instructions[done].operands[0], done, low, low + exported[1]))
            return parts
        return []


def _in_turn(copies: Sequence[tuple[int, tuple[int, ...]]], passed_over: Set[int]) -> list[tuple[int, tuple[int, ...]]]:
    """Returns copies in the order of issue, none of which starts before an earlier one.

    An instruction that the compiled text lacks (`passed_over`) gives a copy no place: the copy then starts where the
    one before it does.
    """
    found: list[tuple[int, tuple[int, ...]]] = []
    latest = -1
    for place, (buffer, direction, start, end, *rest) in copies:
        if 0 <= start < latest < end and all(index in passed_over for index in range(start + 1, latest + 1)):
            start = latest
        latest = max(latest, start)
        found.append((place, (buffer, direction, start, end, *rest)))
    return found


def _table(rows: list[tuple[int, ...]], width: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), width)
