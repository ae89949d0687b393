"""Turns MSA's allocations into XLA's production mapping (pipeline step 4): fast accesses, residencies, copies."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import OPERAND
from ..program.residencies import fit_to_loops, merge_residencies
from .allocation import Allocation
from .extract import Extraction
from .gaps import place_in_gaps
from .hlo import Instruction, Module, Position, Shape, ShapeIndex
from .log import CompilerLog
from .loops import Flattened, flatten

# Entries of `Production.sequence` that are no copy's number.
RUN, ISSUE, STEP, SKIP, CHARGE = -1, -2, -3, -4, -5
_SLICED = "Sliced Copy Allocation"


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
      sequence: the events that MSA's simulator goes through: `RUN` runs the next instruction of the program, `ISSUE`
        issues the next copy, `STEP` runs an instruction that the program leaves out, `SKIP` passes over an instruction
        that a copy replaces, `CHARGE` charges for a conditional when all its branches have run, and a number from 0
        waits for the copy of that number.
      step_s: seconds of one pass of a `STEP`.
      step_trips: passes of each `STEP`, in their order.
      charges: of each `CHARGE`, in their order: seconds of a pass, those of them that are idle for copies, and passes.
      allocated_operands: operand accesses that MSA's allocations list as their uses.
      results_counted_again: result accesses whose value a sliced prefetch fetches, one for each such prefetch.
      counts: copies by kind.
      inexpressible: count, by reason, of what a `Mapping` cannot express.
      unallocated: buffers that MSA listed and then left in HBM without an allocation.
    """

    mapping: Mapping
    sequence: list[int]
    step_s: float
    step_trips: list[int]
    charges: list[tuple[float, float, int]]
    allocated_operands: list[int]
    results_counted_again: list[int]
    counts: dict[str, int]
    inexpressible: dict[str, int]
    unallocated: list[int]


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
        self.extraction, self.module, self.log = extraction, module, log
        self.program = extraction.program
        flattened = flatten(module)
        self.compiled: dict[str, Instruction] = flattened.instructions
        # The root of a loop's body, or of a branch, is a tuple, which the compiler may make anew, under another name.
        compiled_roots = _roots(flattened)
        known_roots = _roots(extraction.values.flattened)
        self.roots = {root.name: compiled_roots[key] for key, root in known_roots.items() if key in compiled_roots}
        self.conditionals = extraction.values.flattened.conditionals
        self.order = {name: index for index, name in enumerate(self.compiled)}
        self.index = {name: index for index, name in enumerate(self.program.instruction_names)}
        replaced = {allocation.replaces for allocation in log.allocations}
        self.replaced = {index for name, index in self.index.items() if name in replaced and name not in self.order}
        present = [name for name, index in self.index.items() if index not in self.replaced]
        missing = [name for name in present if name not in self.order]
        if missing:
            raise FormatError(f"{module.path}: has no instruction {missing[0]!r}: the log is of another compilation")
        # Places of the program's instructions in the compiled schedule, and their times in MSA's.
        self.present = [self.index[name] for name in present]
        self.places = [self.order[name] for name in present]
        self.times = [int(self.program.schedule_index[self.index[name]]) for name in present]
        if self.places != sorted(self.places):
            raise FormatError(f"{module.path}: schedules the instructions differently from the log")
        self.fast = np.zeros(self.program.num_accesses, bool)
        self.residencies: list[tuple[int, ...]] = []
        self.copies: list[tuple[int, tuple[int, ...]]] = []
        self.step_s = 0.0
        self.step_trips: list[int] = []
        self.charges: list[tuple[float, float, int]] = []
        self.allocated_operands: set[int] = set()
        self.counted_again: list[int] = []
        self.allocated: set[int] = set()
        self.later: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.inexpressible: Counter[str] = Counter()

    def read(self) -> Production:
        for allocation in self.log.allocations:
            if allocation.position[0] in self.extraction.values.elsewhere:
                continue
            self._list_uses(allocation)
            buffer = self._buffer(allocation.position)
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
        self.later = place_in_gaps(self.copies, self.residencies, self._waits(), self.replaced, self.program)
        if self.later:
            self.counts["later"] = len(self.later)
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
        sequence = self._sequence()
        return Production(
            mapping=mapping,
            sequence=sequence,
            step_s=self.step_s,
            step_trips=self.step_trips,
            charges=self.charges,
            allocated_operands=sorted(self.allocated_operands),
            results_counted_again=sorted(self.counted_again),
            counts=dict(self.counts),
            inexpressible=dict(self.inexpressible),
            unallocated=unallocated,
        )

    def _list_uses(self, allocation: Allocation) -> None:
        """Notes what the compiler's estimates price as fast for the sake of an allocation."""
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
            instruction = self.compiled.get(user)
            if instruction is None:  # Replaced by a copy.
                continue
            name = user if operand is None else instruction.operands[operand]
            if name not in arrays:
                arrays[name] = dict(self.compiled[name].shape.leaves())
            if (arrays[name][path].memory_space == space) != self.fast[access]:
                self.inexpressible["access whose memory space differs in the compiled text"] += 1

    def _waits(self) -> dict[int, int]:
        """Returns, by place of a copy's issue in the compiled schedule, the place of the wait for it."""
        ends = (instruction for instruction in self.compiled.values() if instruction.opcode.endswith("-done"))
        return {self.order[end.operands[0]]: self.order[end.name] for end in ends}

    def _sequence(self) -> list[int]:
        """Returns the simulator's events; see `Production`."""
        names = list(self.compiled)
        copy_of = {names[place]: copy for copy, (place, _) in enumerate(self.copies) if place >= 0}
        sequence: list[int] = []
        reached = 0
        later = sorted(self.later, reverse=True)

        def pass_on(event: int) -> None:
            nonlocal reached
            sequence.append(event)
            reached += 1
            while later and self.copies[later[-1]][1][2] < reached:
                later.pop()
                sequence.append(ISSUE)

        def skip(until: int) -> None:
            while reached < until and reached in self.replaced:
                pass_on(SKIP)

        for name, elapsed in self.log.timeline:
            instruction = self.compiled.get(name)
            source = instruction.operands[0] if instruction is not None and instruction.operands else ""
            if name in self.index:
                skip(self.index[name])
                pass_on(RUN)
            elif name in copy_of:
                if copy_of[name] in self.later:
                    continue
                skip(self.copies[copy_of[name]][1][2] + 1)
                sequence.append(ISSUE)
            elif source in copy_of and instruction is not None and instruction.opcode.endswith("-done"):
                skip(self.copies[copy_of[source]][1][3])
                sequence.append(copy_of[source])
            elif name in self.conditionals:
                sequence.append(CHARGE)
                self.charges.append(self._charge(name, elapsed))
            elif elapsed > 0:
                sequence.append(STEP)
                self.step_trips.append(max(1, self.log.trips.get(name, 1)))
                self.step_s = min(self.step_s or elapsed, elapsed)
        skip(self.program.num_instructions)
        return sequence

    def _charge(self, name: str, elapsed: float) -> tuple[float, float, int]:
        """Returns what the compiler charges for a conditional, although it has charged for all its branches before."""
        idle = max(0.0, elapsed - self.log.total_bytes.get(name, 0.0) / self.program.target.hbm_bandwidth)
        return elapsed, idle, max(1, self.log.trips.get(name, 1))

    # Times of MSA's schedule also count the instructions that a program leaves out.

    def _last_until(self, time: int) -> int:
        """Returns the last instruction at or before a time of MSA's schedule, or -1."""
        return int(np.searchsorted(self.program.schedule_index, time, side="right")) - 1

    def _first_from(self, time: int) -> int:
        """Returns the first instruction at or after a time of MSA's schedule, or `T`."""
        return int(np.searchsorted(self.program.schedule_index, time, side="left"))

    def _fast_accesses(self, allocation: Allocation) -> None:
        accesses = [self.extraction.access_of.get(use) for use in allocation.uses]
        if allocation.copy_start is None:
            accesses.append(self.extraction.result_of.get(allocation.position))
        for access in accesses:
            if access is not None:
                self.fast[access] = True

    def _reside(self, allocation: Allocation, buffer: int, start: int, low: int = 0, high: int | None = None) -> None:
        size = int(self.program.size[buffer])
        first, last = self._first_from(start), min(self._last_until(allocation.end), self.program.num_instructions - 1)
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
        started = self.compiled.get(allocation.start_name or "")
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
        assert allocation.copy_done is not None
        self.counts["sliced_prefetches"] += 1
        for part in slices:
            start = self._time_before(part.start_name)
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
        first, end = (-1 if start < 0 else self._last_until(start)), self._first_from(done)
        if done >= len(self.log.schedule):
            end = self.program.num_instructions
        if self._enters_a_loop(first, end):
            end = self._end_in_the_schedule(name, end)
        self.counts[("prefetches", "write_backs", "cross_program")[direction]] += 1
        place = self.order.get(name or "", -1)
        if place < 0:
            self.inexpressible["copy that is not in the compiled module"] += 1
        source, replaces = buffer, -1
        if allocation.replaces is not None:
            self.counts["replacing"] += 1
            source = self.extraction.buffer_of[self.extraction.values.resolve(*allocation.position)]
            replaces = self.index[allocation.replaces]
        self.copies.append((place, (buffer, direction, first, end, low, high, source, replaces)))

    def _enters_a_loop(self, start: int, end: int) -> bool:
        """Returns whether a copy starts before a loop and would end inside it."""
        loops = zip(self.program.loop_first.tolist(), self.program.loop_last.tolist(), strict=True)
        return any(start < first < end <= last for first, last in loops)

    def _end_in_the_schedule(self, start_name: str | None, end: int) -> int:
        """Returns the instruction before which the compiled program waits for a copy; `end` if it has no such wait.

        MSA may ask for a copy by a time inside a loop; the compiled program waits before the loop.
        """
        done = next(
            (name for name, i in self.compiled.items() if i.opcode.endswith("-done") and i.operands[0] == start_name),
            None,
        )
        if done is None:
            return end
        following = int(np.searchsorted(self.places, self.order[done]))
        return self.present[following] if following < len(self.present) else self.program.num_instructions

    def _slices(self, allocation: Allocation) -> list[Slice]:
        """Returns the slices of a sliced prefetch, found from an instruction that uses the joined slices."""
        for name, number, path in allocation.uses:
            user = self.compiled.get(name, self.roots.get(name))
            if user is None or number >= len(user.operands):
                continue
            joined = self._forwarded(user.operands[number], path)
            if joined is None or joined.attribute("custom_call_target") != '"ConcatBitcast"':
                continue
            parts = []
            for done in joined.operands:
                exported = self.log.exported.get((done, ()))
                if exported is None:
                    return []
                low = exported[0] - allocation.offset
                parts.append(Slice(self.compiled[done].operands[0], done, low, low + exported[1]))
            return parts
        return []

    def _forwarded(self, name: str, path: ShapeIndex) -> Instruction | None:
        """Returns the instruction that makes an array, behind tuples and bitcasts."""
        while True:
            instruction = self.compiled[name]
            if instruction.opcode == "get-tuple-element":
                name, path = instruction.operands[0], (int(instruction.attribute("index") or 0), *path)
            elif instruction.opcode == "tuple" and path:
                name, path = instruction.operands[path[0]], path[1:]
            elif instruction.opcode == "bitcast":
                name = instruction.operands[0]
            else:
                return instruction

    def _time_before(self, name: str) -> int:
        """Returns the time, in MSA's schedule, of the program's last instruction before `name` in the compiled one."""
        index = int(np.searchsorted(self.places, self.order[name])) - 1
        return self.times[index] if index >= 0 else -1


def _roots(flattened: Flattened) -> dict[tuple[str, int], Instruction]:
    """Returns the roots of loops' bodies and of branches, by the name of the `while` or `conditional`, and a number."""
    roots = {(loop.instruction.name, 0): loop.body.root for loop in flattened.whiles}
    for name, branches in flattened.conditionals.items():
        roots |= {(name, number): branch.root for number, branch in enumerate(branches)}
    return roots


def _table(rows: list[tuple[int, ...]], width: int) -> NDArray[np.int64]:
    return np.array(rows, np.int64).reshape(len(rows), width)
