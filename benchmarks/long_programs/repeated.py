"""Makes long programs: a committed program, repeated end to end."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, Mapping
from mallocmuzero.env.program.program import Program


def repeated(program: Program, times: int) -> Program:
    """Returns a program that runs another one several times, each time on its own buffers.

    Loops, cycle table and kept layouts stay unchanged; XLA's own mapping is repeated too (`repeated_mapping`).
    Variants go, since nothing was compiled.

    Args:
      program: the program.
      times: number of copies, at least 1.
    """
    T, N, L = program.num_instructions, program.num_buffers, len(program.loop_trips)
    copy = np.arange(times)

    def shifted(column: NDArray[Any], step: int) -> NDArray[Any]:
        """Adds `step` per copy to numbers, but keeps -1."""
        moved = np.where(column < 0, column, column + step * copy[:, None])
        return moved.ravel().astype(column.dtype)

    def tiled(column: NDArray[Any]) -> NDArray[Any]:
        return np.tile(column, times)

    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{name}.copy{k}" for k in range(times) for name in names)

    period = int(program.schedule_index[-1]) + 1 if T else 0
    cycles = program.cycles
    made = dataclasses.replace(
        program,
        name=f"{program.name}-x{times}",
        instruction_names=named(program.instruction_names),
        opcodes=program.opcodes * times,
        compute_s=tiled(program.compute_s),
        bytes_total=tiled(program.bytes_total),
        reserved=tiled(program.reserved),
        schedule_index=shifted(program.schedule_index, period),
        loop=shifted(program.loop, L),
        loop_parent=shifted(program.loop_parent, L),
        loop_trips=tiled(program.loop_trips),
        loop_first=shifted(program.loop_first, T),
        loop_last=shifted(program.loop_last, T),
        access_instruction=shifted(program.access_instruction, T),
        access_buffer=shifted(program.access_buffer, N),
        access_kind=tiled(program.access_kind),
        access_number=tiled(program.access_number),
        access_path=program.access_path * times,
        access_bytes=tiled(program.access_bytes),
        buffer_names=named(program.buffer_names),
        size=tiled(program.size),
        definition=shifted(program.definition, T),
        is_output=tiled(program.is_output),
        fast_allowed=tiled(program.fast_allowed),
        hbm_accesses=None if program.hbm_accesses is None else tiled(program.hbm_accesses),
        split=None if program.split is None else tiled(program.split),
        production=None,
        compiler={},
        cycles=None if cycles is None else dataclasses.replace(cycles, row=tiled(cycles.row)),
        keeps_layout=None if program.keeps_layout is None else tiled(program.keeps_layout),
        variants=(),
        provenance={"repeats": program.name, "times": times},
    )
    if program.production is None:
        return made
    return dataclasses.replace(made, production=repeated_mapping(program, program.production, made, times))


def repeated_mapping(program: Program, mapping: Mapping, made: Program, times: int) -> Mapping:
    """Returns a mapping repeated end to end.

    A buffer that a cross-program prefetch brings is fetched in the copy before the one that uses it, where the mapping
    fetches it again for the next execution; the first copy finds it as before, from the last one. A buffer that holds
    its place throughout leaves no room for that: each copy fetches its own, by an ordinary prefetch.

    Args:
      program: the program that was repeated.
      mapping: its mapping.
      made: the repeated program.
      times: number of copies.
    """
    T, N = program.num_instructions, program.num_buffers
    ahead = {int(row[0]): int(row[3]) for row in mapping.copies if row[1] == CROSS_PROGRAM}
    whole = {row[0] for row in mapping.residencies.tolist() if row[0] in ahead and row[1] == 0 and row[2] == T - 1}
    again = {
        row[0]: row[1] for row in mapping.residencies.tolist() if row[0] in ahead and row[1] > 0 and row[2] == T - 1
    }
    residencies, copies = [], []
    for k in range(times):
        for buffer, start, end, *rest in mapping.residencies.tolist():
            of, first, last = buffer + N * k, start + T * k, end + T * k
            if again.get(buffer) == start:
                if k < times - 1:
                    continue  # joined to the residency of the next copy
                of = buffer
            elif buffer in again and start == 0 and k:
                first = again[buffer] + T * (k - 1)
            residencies.append([of, first, last, *rest])
        for buffer, direction, start, end, low, high, source, replaces in mapping.copies.tolist():
            of, begin, due = k, start + T * k, end + T * k
            if direction == CROSS_PROGRAM and (k or buffer in whole) and times > 1:
                if buffer in again:
                    continue
                direction, begin, due = PREFETCH, T * k - 1, max(due, T * k)
            elif buffer in again and start + 1 == again[buffer]:
                of = (k + 1) % times
            instead = replaces + T * k if replaces >= 0 else -1
            copies.append([buffer + N * of, direction, begin, due, low, high, source + N * of, instead])
    copies.sort(key=lambda row: row[2])
    return Mapping(
        made.sha256,
        np.tile(mapping.access_fast, times),
        np.array(residencies, np.int64).reshape(-1, mapping.residencies.shape[1]),
        np.array(copies, np.int64).reshape(-1, mapping.copies.shape[1]),
        {"repeats": program.name, "times": times},
    )
