"""What the compiler's log reports about its own assignment, in the terms of a program (`AssignmentFacts`)."""

from collections.abc import Iterator

import numpy as np

from ..program.assignment_facts import LOOP_TIMES, AssignmentFacts, LoopOperand
from ..program.program import Program
from .extract import Extraction
from .hlo import Position, path_text
from .log import CompilerLog
from .values import FORWARDING

# Instructions that take less do not show which share of their seconds copies get; for others two digits suffice.
_NO_TIME, _SHARE_DIGITS = 1e-9, 2


def logged_facts(extraction: Extraction, log: CompilerLog) -> AssignmentFacts:
    """Returns the facts; buffers of one group have the turn of the first that is placed."""

    def buffer_of(position: Position) -> int | None:
        known = position[0] in extraction.values.instructions
        return extraction.buffer_of.get(extraction.values.resolve(*position)) if known else None

    turns = (buffer_of(position) for position in log.order if position not in log.skipped)
    cut = [(buffer_of(position), tuple(sizes)) for position, sizes in log.slices.items()]
    size, nest = extraction.program.size, extraction.nest
    views = {
        (buffer, time)
        for time, name in log.schedule.items()
        if name in extraction.values.instructions
        and extraction.values.instructions[name].opcode == "bitcast"
        and (buffer := buffer_of((name, ()))) is not None
    }
    first = int(extraction.program.schedule_index[0])
    idle = {time for time, name in log.schedule.items() if time > first and not log.elapsed[name]}
    idle -= set(extraction.program.schedule_index.tolist())
    loops = {name: loop for loop, name in enumerate(nest.names) if extraction.program.loop_kinds[loop] == "loop"}
    return AssignmentFacts(
        log.typical_copy_s,
        max(log.schedule),
        np.array(sorted(idle), np.int64),
        np.array(list(dict.fromkeys(turn for turn in turns if turn is not None)), np.int64),
        {buffer: sizes for buffer, sizes in cut if buffer is not None and sum(sizes) in (0, size[buffer])},
        np.array(nest.times, np.int64).reshape(-1, len(LOOP_TIMES)),
        {
            (loop, buffer): int(moved)
            for name, loop in loops.items()
            for path, _ in extraction.values.instructions[name].shape.leaves()
            if (moved := log.output_bytes.get((name, path))) and (buffer := buffer_of((name, path))) is not None
        },
        _passed(extraction, log),
        np.array(sorted(views), np.int64).reshape(-1, 2),
        _supply(extraction.program, log),
        list(_loop_operands(extraction)),
    )


def _loop_operands(extraction: Extraction) -> Iterator[LoopOperand]:
    """Yields what loops read and carry, loop by loop; conditionals and their branches are left out."""
    values = extraction.values
    for loop, name in enumerate(extraction.nest.names):
        instruction = values.instructions[name]
        if instruction.opcode != "while":
            continue
        for path, _ in instruction.shape.leaves():
            buffer = extraction.buffer_of.get(values.resolve(instruction.operands[0], path))
            if buffer is not None:
                yield LoopOperand(loop, buffer, name, path_text(path))


def _passed(extraction: Extraction, log: CompilerLog) -> dict[int, int]:
    """Returns, for buffers that copies read, when their first value is first a tuple's element after its definition."""
    program, values = extraction.program, extraction.values
    read: dict[Position, int] = {}
    position_of = {buffer: position for position, buffer in reversed(extraction.buffer_of.items())}
    for t, opcode in enumerate(program.opcodes):
        if opcode == "copy" and program.access_start[t] < program.access_start[t + 1]:
            buffer = int(program.access_buffer[program.access_start[t]])
            read[position_of[buffer]] = buffer
    found: dict[int, int] = {}
    for time in sorted(log.schedule):
        instruction = values.instructions.get(log.schedule[time])
        if instruction is None or instruction.opcode not in FORWARDING:
            continue
        for path, _ in instruction.shape.leaves():
            buffer = read.get(values.resolve(instruction.name, path), -1)
            if buffer >= 0:
                found.setdefault(buffer, time)
    return found


def _supply(program: Program, log: CompilerLog) -> list[tuple[int, float]]:
    """Returns where instructions begin to supply copies with another share of their seconds, and that share."""
    found: list[tuple[int, float]] = []
    seconds = np.maximum(program.compute_s, program.bytes_total / program.target.hbm_bandwidth)
    for t in np.flatnonzero(seconds > _NO_TIME).tolist():
        share = round(log.elapsed[program.instruction_names[t]] / float(seconds[t]), _SHARE_DIGITS)
        if share != (found[-1][1] if found else 1.0):
            found.append((int(program.schedule_index[t]), share))
    return found
