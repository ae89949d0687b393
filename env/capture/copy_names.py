"""Finds which compiled copy an allocation is, for compilers whose log does not name it (pipeline step 4).

jax 0.8.0 with libtpu 0.0.24, and earlier versions, log no names of copies.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from .allocation import Allocation
from .compiled_schedule import CompiledSchedule
from .hlo import Position, behind

_COPY = "Copy Allocation"
# Instructions whose first operand has what they return: parts of copies.
_PASSING = ("copy-start", "copy-done", "slice-start", "slice-done", "async-start", "async-done")
_JOINED = '"ConcatBitcast"'


def with_copy_names(allocations: Sequence[Allocation], schedule: CompiledSchedule, space: int) -> list[Allocation]:
    """Returns the allocations, with the names of their copies where the log names none at all.

    The copies of one value to one memory are taken in the order in which they start. Where there are more or fewer of
    them in the compiled module than in the log, they stay without names.

    Args:
      allocations: those of the log.
      schedule: the compiled schedule.
      space: number of the memory space of fast memory.
    """
    nameless: dict[tuple[Position, bool], list[int]] = defaultdict(list)
    for number, allocation in enumerate(allocations):
        if allocation.start_name is not None:
            return list(allocations)
        if allocation.kind == _COPY and allocation.copy_start is not None:
            nameless[allocation.position, allocation.fast].append(number)
    if not nameless:
        return list(allocations)
    compiled: dict[tuple[Position, bool], list[str]] = defaultdict(list)
    parts = _parts(schedule)
    for name, instruction in schedule.instructions.items():
        if instruction.opcode == "copy-start":
            shapes = dict(instruction.shape.leaves())
            made, read = (shapes[number,].memory_space == space for number in (0, 1))
            if made != read:  # not one to the host
                compiled[_source(schedule, name), made].append(name)
        elif name.startswith("slice-start") and name not in parts:  # in place of a slice
            compiled[_source(schedule, name), True].append(name)
    named = list(allocations)
    for what, numbers in nameless.items():
        if len(numbers) == len(compiled[what]):
            numbers.sort(key=lambda number: allocations[number].copy_start or 0)
            for number, name in zip(numbers, compiled[what], strict=True):
                named[number] = replace(allocations[number], start_name=name)
    return named


def _parts(schedule: CompiledSchedule) -> set[str]:
    """Returns the copies that each fetch a slice of a sliced prefetch."""
    joined = (i for i in schedule.instructions.values() if i.attribute("custom_call_target") == _JOINED)
    return {schedule.instructions[done].operands[0] for join in joined for done in join.operands}


def _source(schedule: CompiledSchedule, name: str) -> Position:
    """Returns the value that a copy moves, behind the copies that moved it before."""
    path: tuple[int, ...] = ()
    while True:
        instruction = schedule.instructions[name]
        if instruction.opcode not in _PASSING and instruction.attribute("custom_call_target") != _JOINED:
            return name, path
        name, path = behind(schedule.instructions, instruction.operands[0], ())
