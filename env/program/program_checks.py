"""Checks that the columns of a program agree with each other, on behalf of the reader of program files."""

import numpy as np

from .document import Document
from .program import OPERAND, PROBLEM_FIELDS, Program


def check_columns(program: Program, document: Document) -> None:
    """Checks lengths, ranges, order, loops and definitions. All other code trusts a program that passes.

    Args:
      program: the program, as read.
      document: the file, for messages.

    Raises:
      FormatError: a column does not agree with another one, or holds a number out of range.
    """
    sizes = {"instructions": len(program.instruction_names), "loops": len(program.loop_trips)}
    sizes |= {"accesses": len(program.access_buffer), "buffers": len(program.buffer_names)}
    for section, fields in PROBLEM_FIELDS.items():
        for key, attribute in fields.items():
            length = len(getattr(program, attribute))
            if length != sizes[section]:
                raise document.error(f"{section}.{key}", f"has {length} entries where {sizes[section]} are expected")
    instructions, loops, buffers = sizes["instructions"], sizes["loops"], sizes["buffers"]
    for name, array, low, high in (
        ("instructions.compute_s", program.compute_s, 0, 1e9),
        ("instructions.bytes", program.bytes_total, 0, 1e18),
        ("instructions.reserved", program.reserved, 0, program.target.fast_bytes),
        ("instructions.loop", program.loop, -1, loops - 1),
        ("loops.parent", program.loop_parent, -1, loops - 1),
        ("loops.trips", program.loop_trips, 0, 2**40),
        ("loops.first", program.loop_first, 0, instructions - 1),
        ("loops.last", program.loop_last, 0, instructions - 1),
        ("accesses.instruction", program.access_instruction, 0, instructions - 1),
        ("accesses.buffer", program.access_buffer, 0, buffers - 1),
        ("accesses.kind", program.access_kind, 0, 1),
        ("accesses.bytes", program.access_bytes, 0, 1e18),
        ("buffers.size", program.size, 0, 2**50),
        ("buffers.definition", program.definition, -1, instructions - 1),
    ):
        bad = np.flatnonzero((array < low) | (array > high))
        if bad.size:
            raise document.error(f"{name}[{bad[0]}]", f"is {array[bad[0]]}, outside {low}..{high}")
    order = program.access_instruction.astype(np.int64) * 2 + program.access_kind
    if np.any(np.diff(order) < 0):
        raise document.error("accesses.instruction", "is not in order: by instruction, operands before results")
    if np.any(program.loop_parent >= np.arange(loops)):
        raise document.error("loops.parent", "names a loop that comes later: an enclosing loop comes first")
    if np.any(np.diff(program.schedule_index) <= 0):
        raise document.error("instructions.schedule_index", "does not increase")
    _check_loops(program, document)
    _check_conditionals(program, document)
    _check_definitions(program, document)
    _check_held(program, document)


def _check_loops(program: Program, document: Document) -> None:
    """Checks that loops nest, and that every instruction names its innermost loop."""
    inside = np.full(program.num_instructions, -1)
    for index, (first, last) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        parent = program.loop_parent[index]
        if first > last or not np.all(inside[first : last + 1] == parent):
            raise document.error(f"loops.first[{index}]", "and `last` do not nest inside the enclosing loop")
        inside[first : last + 1] = index
    if not np.array_equal(inside, program.loop):
        raise document.error("instructions.loop", "does not agree with `loops.first` and `loops.last`")


def _check_conditionals(program: Program, document: Document) -> None:
    """Checks that a conditional is its branches, and that each of these counts once."""
    for loop in [] if program.conditional is None else np.flatnonzero(program.conditional).tolist():
        branches = np.flatnonzero(program.loop_parent == loop)
        if np.any(program.loop_trips[[loop, *branches]] != 1):
            raise document.error(f"loops.trips[{loop}]", "is not 1 for a conditional and its branches")
        if np.any(program.loop[program.loop_first[loop] : program.loop_last[loop] + 1] == loop) or not len(branches):
            raise document.error("conditionals.loop", f"names loop {loop}, which has instructions outside its branches")


def _check_definitions(program: Program, document: Document) -> None:
    """Checks that a buffer is defined by its first result, and that no instruction reads it before."""
    definition = program.definition.tolist()
    written = [at < 0 for at in definition]
    columns = (program.access_buffer, program.access_kind, program.access_instruction)
    for access, (buffer, kind, at) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if kind == OPERAND:
            if not written[buffer]:
                raise document.error(f"accesses.buffer[{access}]", f"reads buffer {buffer} before anything defines it")
        elif not written[buffer]:
            if definition[buffer] != at:
                raise document.error(
                    f"buffers.definition[{buffer}]", "is not the instruction of the buffer's first result"
                )
            written[buffer] = True
    if not all(written):
        raise document.error(f"buffers.definition[{written.index(False)}]", "names an instruction with no such result")


def _check_held(program: Program, document: Document) -> None:
    """Checks that a collective holds one buffer, in one pass of a loop, which nothing else writes meanwhile."""
    if program.held_since is None:
        return
    buffer, kind, at = program.access_buffer, program.access_kind, program.access_instruction
    for row, access in enumerate(np.flatnonzero(program.held_since >= 0)):
        since, name = int(program.held_since[access]), f"held.since[{row}]"
        if kind[access] != OPERAND or since >= access or buffer[since] != buffer[access]:
            raise document.error(name, "is no earlier access to the buffer of an operand")
        if program.held_since[since] >= 0:
            raise document.error(name, "is itself an access with which a collective lets go")
        if program.loop[at[since]] != program.loop[at[access]]:
            raise document.error(name, "is not in the loop in which the collective lets the buffer go")
    for since, last in program.holds.tolist():
        between = np.arange(since + 1, program.access_start[at[last]])
        others = between[(buffer[between] == buffer[since]) & (program.held_since[between] != since)]
        # A stack in host memory, and what another core scatters to, is written in place: one start reads and writes it.
        others = others[(at[others] != at[since]) | program.access_allowed[others]]
        if len(others) and (kind[since] != OPERAND or np.any(kind[others] != OPERAND)):
            raise document.error("held.since", f"lets access {others[0]} use a buffer while a collective writes it")
