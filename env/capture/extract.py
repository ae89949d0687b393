"""Builds a `Program` from the scheduled module and the log of one compilation (pipeline step 3)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, UserError
from ..program.kernel_colors import KernelColors
from ..program.program import OPERAND, REPLACEABLE_OPCODES, RESULT, Program
from ..program.target import Target
from .alias import alias_groups
from .allocation import Allocation
from .carried_copies import held_bytes
from .collectives import PAIRS, leaves_the_core
from .coloring_hints import Uncolored
from .hlo import Instruction, Position, Use, path_text, position_text
from .kernel_colors import colors_of
from .kernels import kept_in_hbm, kernel_in, tells_cost
from .log import CompilerLog
from .loops import Nest, nest, runs
from .values import FORWARDING, INPUTS, Values

_UNLIMITED = 2**31 - 1


@dataclass(frozen=True)
class Extraction:
    """A program and the way back to the compiler's names.

    Attributes:
      program: without a production mapping.
      values: the values of its module.
      buffer_of: index of the buffer, by the definition of a value.
      access_of: index of an operand access, by use.
      result_of: index of a result access, by position.
      left_out_s: seconds that the compiler charges for the instructions that are left out because they move nothing:
        one cycle for a tuple element, a bitcast or a constant.
      aliased_buffers: number of buffers that hold several values.
      kernels: indices of the instructions that are kernels of one's own -> whether they state their cost.
      colored: the kernels that the compiler has colored.
      colored_fast: accesses of other instructions that it has colored: results that must be in fast memory.
      nest: the program's loops.
      passes: how many times the instructions of a loop run in all, by its number in the schedule.
    """

    program: Program
    values: Values
    buffer_of: dict[Position, int]
    access_of: dict[Use, int]
    result_of: dict[Position, int]
    left_out_s: float
    aliased_buffers: int
    kernels: dict[int, bool]
    colored: list[KernelColors]
    colored_fast: list[int]
    nest: Nest
    passes: dict[int, int]


def extract(
    log: CompilerLog,
    sizes: dict[Position, int],
    target: Target,
    before: Mapping[str, Instruction],
    *,
    uncolored: Uncolored,
    idle: Set[str] = frozenset(),
    apart: Set[str] | None = frozenset(),
    allowed: Set[str] | None = None,
    split: Mapping[str, int] | None = None,
    **names: Any,
) -> Extraction:
    """Builds the program of one compilation.

    Args:
      log: MSA's log of it.
      sizes: padded bytes by value, for the values that MSA does not list.
      target: the target that it was compiled for; limits that the log states differently are taken from the log.
      before: the kernels before the compiler colored them, see `kernels_before`.
      uncolored: the scheduled module right before memory space assignment.
      idle: instructions that the program has although they move nothing, so that copies can begin or end at their time.
      apart: see `alias_groups`.
      allowed: buffers that may be fast although MSA does not list them; None for those that this compilation has in
        fast memory.
      split: bytes in fast memory of the buffers that are split over two cores; None for what this compilation shows.
      names: `name`, `family`, `provenance` of the program.

    Raises:
      FormatError: module and log do not belong together, or a value has no known size.
      UserError: the program holds instructions that capture does not understand.
    """
    module = uncolored.module
    values = Values(module)
    groups = alias_groups(module, values, log, apart)
    builder = _Builder(uncolored, values, log, sizes, _target(target, log), before, idle, groups, allowed, split)
    builder.add_instructions()
    return builder.finish(names)


def _target(target: Target, log: CompilerLog) -> Target:
    """Returns the target with the limits that the log states; there, a negative limit means none."""

    def limit(option: str, default: int) -> int:
        value = log.options.get(option, default)
        return _UNLIMITED if value < 0 else value

    return replace(
        target,
        fast_bytes=log.options["max_size_in_bytes"],
        alignment=log.options.get("alignment_in_bytes", target.alignment),
        max_prefetches=limit("max_outstanding_prefetches", target.max_prefetches),
        max_write_backs=limit("max_outstanding_evictions", target.max_write_backs),
    )


class _Builder:
    """Collects the columns of a program."""

    def __init__(
        self,
        uncolored: Uncolored,
        values: Values,
        log: CompilerLog,
        sizes: dict[Position, int],
        target: Target,
        before: Mapping[str, Instruction],
        idle: Set[str],
        groups: Mapping[Position, Position],
        allowed: Set[str] | None,
        split: Mapping[str, int] | None,
    ) -> None:
        self.uncolored, self.module = uncolored, uncolored.module
        self.values, self.log, self.sizes, self.before = values, log, sizes, before
        self.idle, self.groups, self.split = idle, groups, split
        self.runs = runs(values.flattened, log)
        self.target = target
        fast = (allocation.position for allocation in log.allocations if allocation.fast)
        placed = {values.resolve(*position) for position in fast if position[0] in values.instructions}
        self.allowed_too = {position_text(position) for position in placed} if allowed is None else allowed
        self.left_out_s = 0.0
        self.names: list[str] = []
        self.schedule: list[int] = []
        self.accesses: list[tuple[int, int, int, int, str, float]] = []
        self.held_since: dict[int, int] = {}
        self.left_out_bytes: dict[int, float] = {}
        self.near_bytes: dict[int, float] = {}
        self.buffers: list[Position] = []
        self.sizes_of: list[int] = []
        self.allowed: list[bool] = []
        self.definition: list[int] = []
        self.leader_buffer: dict[Position, int] = {}
        self.buffer_of: dict[Position, int] = {}
        self.access_of: dict[Use, int] = {}
        self.result_of: dict[Position, int] = {}

    def add_instructions(self) -> None:
        """Goes through MSA's schedule and adds instructions, accesses and buffers.

        Raises:
          FormatError: the module lacks a scheduled instruction, or a value has no known size.
        """
        for time in sorted(self.log.schedule):
            name = self.log.schedule[time]
            if name in self.values.elsewhere:
                continue
            instruction = self.values.instructions.get(name)
            if instruction is None:
                raise FormatError(
                    f"{self.module.path}: has no instruction {name!r}, which the log schedules at {time}: module and "
                    "log come from different compilations, or the program has control flow; capture again"
                )
            if instruction.opcode in INPUTS:
                if name in self.values.branch_parameters:
                    self._instruction(time, name)  # It does nothing, and is where the branch begins.
                    continue
                if name not in self.values.parameters:
                    for path, _ in instruction.shape.leaves():
                        self._buffer((name, path), -1)
                self._leave_out(name)
                continue
            if instruction.opcode == "conditional":
                for path, _ in instruction.shape.leaves():
                    self._buffer((name, path), len(self.names) - 1)
                continue
            if instruction.opcode in FORWARDING:
                if name in self.idle:
                    self._instruction(time, name)
                else:
                    self._leave_out(name)
                continue
            index = self._instruction(time, name)
            self._operands(index, instruction)
            self._results(index, instruction)

    def _operands(self, index: int, instruction: Instruction) -> None:
        collectives, name = self.values.collectives, instruction.name
        if name in self.values.carried.ends:  # It waits, and moves nothing.
            return
        for number, path, position in self.values.operand_leaves(instruction):
            if position in self.values.carried.slices:
                moved = self.log.operand_bytes.get((name, number, path), 0.0)
                self.near_bytes[index] = self.near_bytes.get(index, 0.0) + moved
                continue
            begun = collectives.of(instruction.operands[number], path)
            use = (name, number, path)
            if begun is not None and (name in collectives.carriers or collectives.is_context(begun)):
                self._leave_bytes_out(index, self.log.operand_bytes.get(use, 0.0))
                continue
            buffer = self._buffer(position, index)
            self.access_of[use] = len(self.accesses)
            if begun is not None:
                began = collectives.read.get(begun)
                self.held_since[len(self.accesses)] = self.result_of[begun] if began is None else self.access_of[began]
            moved = 0.0 if self._is_free(name) else self.log.operand_bytes.get(use, self.sizes_of[buffer])
            self.accesses.append((index, buffer, OPERAND, number, path_text(path), moved))
        for number, (path, _) in enumerate(instruction.shape.leaves()):
            began = collectives.read.get((name, path))
            moved = self.log.output_bytes.get((name, path), 0.0)
            if began is None or not moved or self._is_free(name):
                continue
            # A start that returns its operand is charged for that, and writes nothing.
            buffer = self._buffer(self.values.resolve(name, path), index)
            self.result_of[name, path] = len(self.accesses)
            self.held_since[len(self.accesses)] = self.access_of[began]
            number += len(instruction.operands)
            self.accesses.append((index, buffer, OPERAND, number, path_text(path), moved))

    def _results(self, index: int, instruction: Instruction) -> None:
        collectives, name = self.values.collectives, instruction.name
        if name in self.values.carried.starts or name in self.values.carried.ends:
            return
        for number, (path, _) in enumerate(instruction.shape.leaves()):
            if (name, path) in collectives.begun and (
                (name, path) in collectives.passed or collectives.is_context((name, path))
            ):
                if (name, path) not in self.result_of:
                    self._leave_bytes_out(index, self.log.output_bytes.get((name, path), 0.0))
                continue
            buffer = self._buffer((name, path), index)
            self.result_of[name, path] = len(self.accesses)
            moved = 0.0 if self._is_free(name) else self.log.output_bytes.get((name, path), self.sizes_of[buffer])
            self.accesses.append((index, buffer, RESULT, number, path_text(path), moved))

    def _is_free(self, name: str) -> bool:
        """Returns whether the compiler charges nothing for an instruction, whatever bytes it names: half of a pair."""
        return self.values.instructions[name].opcode in PAIRS

    def _leave_bytes_out(self, index: int, moved: float) -> None:
        """Counts bytes in HBM that belong to no access: those of semaphores."""
        self.left_out_bytes[index] = self.left_out_bytes.get(index, 0.0) + moved

    def _leave_out(self, name: str) -> None:
        self.left_out_s += self.log.elapsed[name] * self.runs[self.values.flattened.loop_of[name]]

    def _instruction(self, time: int, name: str) -> int:
        self.names.append(name)
        self.schedule.append(time)
        return len(self.names) - 1

    def _buffer(self, position: Position, index: int) -> int:
        """Returns the buffer of the value defined at `position`: a new one for the first of its group."""
        leader = self.groups.get(position, position)
        buffer = self.leader_buffer.get(leader)
        if buffer is None:
            buffer = self.leader_buffer[leader] = len(self.buffers)
            self.buffers.append(position)
            self.definition.append(index)
            self.sizes_of.append(0)
            self.allowed.append(False)
        if position not in self.buffer_of:
            self.buffer_of[position] = buffer
            self.sizes_of[buffer] = max(self.sizes_of[buffer], self._size(position))
            # MSA lists the values that it may place, except for those that it prefetches across programs and some that
            # it places together with others: results of another core.
            names = self.values.names(position)
            listed = any(name in self.log.buffer_size for name in names) or position_text(position) in self.allowed_too
            listed |= "cross-program" in self.log.skipped.get(position, "")
            self.allowed[buffer] |= listed
        return buffer

    def _size(self, position: Position) -> int:
        known = (sizes.get(p) for p in self.values.names(position) for sizes in (self.log.buffer_size, self.sizes))
        size = next((size for size in known if size is not None), None)
        if size is None:
            name, path = position
            raise FormatError(f"{self.module.path}: no dump gives the size of {name}{path_text(path)}; capture again")
        return size

    def finish(self, names: dict[str, Any]) -> Extraction:
        """Returns the program with its loops and outputs."""
        loops = nest(self.names, self.values.flattened, self.log)
        held = held_bytes(self._slices())
        for position in kept_in_hbm(self.module, self.values, self.before):
            self.allowed[self.buffer_of[position]] = False
        columns = [list(column) for column in zip(*self.accesses, strict=True)] if self.accesses else [[]] * 6
        is_output = np.zeros(len(self.buffers), bool)
        root = self.module.entry.root
        for path, _ in root.shape.leaves():
            position = self.values.resolve(root.name, path)
            is_output[self._buffer(position, -1)] = True
        program = Program(
            target=self.target,
            instruction_names=tuple(self.names),
            opcodes=tuple(self.values.instructions[name].opcode for name in self.names),
            compute_s=np.array([self._compute(name) for name in self.names]),
            bytes_total=np.array(self._totals(columns)),
            reserved=np.array([self.log.scoped.get(time, 0) + held.get(time, 0) for time in self.schedule], np.int64),
            schedule_index=np.array(self.schedule, np.int32),
            loop=loops.loop,
            loop_parent=loops.parent,
            loop_trips=loops.trips,
            loop_first=loops.first,
            loop_last=loops.last,
            conditional=loops.conditional if loops.conditional.any() else None,
            access_instruction=np.array(columns[0], np.int32),
            access_buffer=np.array(columns[1], np.int32),
            access_kind=np.array(columns[2], np.int8),
            access_number=np.array(columns[3], np.int32),
            access_path=tuple(columns[4]),
            access_bytes=np.array(columns[5], np.float64),
            buffer_names=tuple(map(position_text, self.buffers)),
            size=np.array(self.sizes_of, np.int64),
            definition=np.array(self.definition, np.int32),
            is_output=is_output,
            fast_allowed=np.array(self.allowed, bool),
            keeps_layout=np.array([self._keeps_layout(name) for name in self.names], bool),
            held_since=self._held_since(),
            hbm_accesses=self._hbm_accesses(),
            split=self._split(),
            **names,
        )
        return Extraction(
            program=program,
            values=self.values,
            buffer_of=self.buffer_of,
            access_of=self.access_of,
            result_of=self.result_of,
            left_out_s=self.left_out_s,
            aliased_buffers=len(set(self.groups.values())),
            kernels=dict(self._kernels()),
            colored=list(self._colored()),
            colored_fast=sorted(self.result_of[position] for position in self.uncolored.fast & self.result_of.keys()),
            nest=loops,
            passes=self.runs,
        )

    def _slices(self) -> Iterator[Allocation]:
        """Yields the allocations of slices that copies across the passes of loops write."""
        for allocation in self.log.allocations:
            if self.values.is_carried_slice(allocation.position):
                if not allocation.fast or allocation.copy_start is not None:
                    raise UserError(
                        f"{self.module.path}: {position_text(allocation.position)!r}, which a copy across the passes "
                        "of a loop writes, is not always in fast memory, which capture does not understand yet; give "
                        "another version of the compiler, such as --jax 0.10.2"
                    )
                yield allocation

    def _held_since(self) -> NDArray[np.int32] | None:
        if not self.held_since:
            return None
        since = np.full(len(self.accesses), -1, np.int32)
        since[list(self.held_since)] = list(self.held_since.values())
        return since

    def _hbm_accesses(self) -> NDArray[np.bool_]:
        found = np.zeros(len(self.accesses), bool)
        for position in self.log.written_to_hbm & self.result_of.keys():
            access = self.result_of[position]
            found[access] = self.accesses[access][2] == RESULT
        elsewhere = [leaves_the_core(self.values.instructions, name) for name in self.names]
        for access, (index, *_) in enumerate(self.accesses):
            found[access] |= elsewhere[index]
        found[list(self._told_in_hbm())] = True
        return found & np.array([self.allowed[buffer] for _, buffer, *_ in self.accesses], bool)

    def _split(self) -> NDArray[np.int64] | None:
        """Returns `Program.split`."""
        parts = self._parts() if self.split is None else self.split
        split = np.array([parts.get(position_text(position), 0) for position in self.buffers], np.int64)
        split[~np.array(self.allowed, bool)] = 0
        return split if split.any() else None

    def _parts(self) -> dict[str, int]:
        """Returns the bytes in fast memory of buffers of which each core has a part; 0 for some of the others.

        For a value that is split MSA seeks less than its size, even if it finds no room. A buffer of several values is
        split if all are that MSA seeks room for. Where it seeks room for a slice, the use is not one of the buffer.
        """
        parts: defaultdict[str, set[int]] = defaultdict(set)
        instructions = self.values.instructions
        for (position, (user, number, path)), sought in self.log.sought.items():
            if position[0] in instructions and user in instructions:
                value = self.values.resolve(*position)
                buffer = self.buffer_of.get(value, -1)
                used = self.values.resolve(instructions[user].operands[number], path)
                if buffer >= 0 and self.buffer_of.get(used) == buffer:
                    part = sought if sought < self._size(value) else 0
                    parts[position_text(self.buffers[buffer])].add(part)
        return {name: part for name, (part, *others) in parts.items() if not others}

    def _told_in_hbm(self) -> Iterator[int]:
        """Yields the accesses of arrays that the compiler has colored to be in HBM.

        These are the uses that notes name, the sources of copies across the passes of a loop, what a copy writes in
        place until it ends, and results in the loop of such a use, which the compiler writes to HBM at once.
        """
        loop_of, in_place = self.values.flattened.loop_of, self.values.collectives.in_place
        starts, in_hbm = self.values.carried.starts, self.uncolored.in_hbm
        told = {access for use, access in self.access_of.items() if use in in_hbm or use[0] in starts}
        told |= {
            access
            for (name, path), access in self.result_of.items()
            if (name, in_place.get((name, path), -1), ()) in in_hbm
        }
        told |= {access for access, since in self.held_since.items() if since in told}
        loops = {(self.accesses[access][1], loop_of[self.names[self.accesses[access][0]]]) for access in told}
        yield from told
        for access, (index, buffer, kind, *_) in enumerate(self.accesses):
            if kind == RESULT and (buffer, loop_of[self.names[index]]) in loops:
                yield access

    def _kernels(self) -> Iterator[tuple[int, bool]]:
        for index, name in enumerate(self.names):
            kernel = kernel_in(self.values.instructions[name], self.module)
            if kernel is not None:
                yield index, tells_cost(kernel)

    def _colored(self) -> Iterator[KernelColors]:
        for name in self.names:
            kernel = self.values.instructions[name]
            if kernel.name not in self.before:  # Of a fused kernel, operands are others'.
                continue
            arrays = colors_of(kernel)
            access = [
                self.result_of.get((name, path), -1) if number is None else self.access_of.get((name, number, path), -1)
                for number, path, _ in arrays
            ]
            yield KernelColors(self.before[name].name, access, [array.color for array in arrays])

    def _keeps_layout(self, name: str) -> bool:
        """Returns whether an instruction only moves bytes and keeps their layout, which lets XLA replace it by a copy.

        The tiles of a slice are not compared: few rows have smaller ones.
        """
        instruction = self.values.instructions[name]
        if instruction.opcode not in REPLACEABLE_OPCODES or instruction.shape.elements is not None:
            return False
        operand = self.values.instructions[instruction.operands[0]].shape.layout
        if instruction.opcode == "slice":
            return operand[:2] == instruction.shape.layout[:2]
        return operand == instruction.shape.layout

    def _compute(self, name: str) -> float:
        return self.log.compute_s.get(name, self.log.elapsed[name])

    def _totals(self, columns: list[list[Any]]) -> list[float]:
        """Returns total bytes per instruction: the exact sum if the printed six digits agree with it."""
        sums = np.zeros(len(self.names))
        np.add.at(sums, np.array(columns[0], int), np.array(columns[5], float))
        near = np.zeros(len(self.names))
        np.add.at(near, list(self.near_bytes), list(self.near_bytes.values()))
        np.add.at(sums, list(self.left_out_bytes), list(self.left_out_bytes.values()))
        # Bytes that are always fast belong to no access. They count as the bytes in HBM that take as long.
        spared = near * (1.0 - self.target.hbm_bandwidth / self.target.fast_bandwidth)
        totals = []
        for name, exact, less in zip(self.names, sums + near, spared, strict=True):
            printed = 0.0 if self._is_free(name) else self.log.total_bytes.get(name, 0.0)
            totals.append(float((exact if abs(exact - printed) <= 1e-5 * printed else printed) - less))
        return totals
