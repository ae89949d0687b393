"""Columns about time: the window of a prefetch, and what loops and collectives hold while they run."""

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows
from ..program.program import Program
from .records import RETURN


def weights_outside(program: Program) -> NDArray[np.float64]:
    """Returns `[L]` how often each loop is entered."""
    outside = np.ones(len(program.loop_trips))
    for loop, parent in enumerate(program.loop_parent.tolist()):  # enclosing loops come first
        if parent >= 0:
            outside[loop] = outside[parent] * float(program.loop_trips[parent])
    return outside


def earliest_starts(program: Program) -> NDArray[np.int64]:
    """Returns `[T + 1]` the earliest `start` of a copy due at each instruction that stays inside one loop body."""
    steps = program.num_instructions
    loop = np.append(program.loop, [-1])
    earliest = np.full(steps + 1, -1, np.int64)
    for t in range(1, steps + 1):
        if loop[t] == loop[t - 1]:
            earliest[t] = earliest[t - 1]
        else:
            # Entering a loop, the copy must be issued inside it; leaving one, after its last instruction.
            entered = loop[t] >= 0 and program.loop_first[loop[t]] == t
            earliest[t] = t if entered else t - 1
    if steps and loop[0] >= 0:
        inside = np.flatnonzero(earliest[:steps] == -1)
        earliest[inside] = 0
    return earliest


def add_prefetches(
    program: Program,
    holder: NDArray[np.int64],
    earliest: NDArray[np.int64],
    outside: NDArray[np.float64],
    access: Rows,
) -> None:
    """Fills the columns of the prefetch for each access, and of the instruction until which its buffer is held.

    Args:
      program: the program.
      holder: `[A]` the loop that holds the buffer of an access, or -1.
      earliest: `[T + 1]`, `earliest_starts`.
      outside: `[L]`, `weights_outside`.
      access: the accesses.
    """
    step = program.access_instruction
    access["due"] = step
    access["until"] = step
    access["earliest"] = earliest[step]
    access["once"] = 1.0
    held = np.flatnonzero(holder >= 0)
    if not len(held):
        return
    loop = holder[held]
    before = [_earliest_before(program, earliest, number) for number in range(len(program.loop_trips))]
    access["due"][held] = program.loop_first[loop]
    access["until"][held] = program.loop_last[loop]
    access["earliest"][held] = np.array(before, np.int64)[loop]
    weight = program.weight[step[held]]
    access["once"][held] = np.divide(outside[loop], weight, out=np.ones(len(held)), where=weight > 0)


def _earliest_before(program: Program, earliest: NDArray[np.int64], loop: int) -> int:
    """Returns the earliest `start` of a copy that is due before a loop is entered."""
    first, parent = int(program.loop_first[loop]), int(program.loop_parent[loop])
    if parent >= 0 and program.loop_first[parent] == first:
        return first  # no instruction of the enclosing body runs before it
    if first > 0 and program.loop[first - 1] == parent:
        return int(earliest[first - 1])
    return first - 1


def hold(program: Program, access: Rows) -> NDArray[np.bool_]:
    """Fills `beside`, and `until` of what collectives hold; returns `[A]` whether one holds the buffer after it."""
    access["beside"], access["alone"], access["own"] = -1, access["until"], access["until"]
    held = np.zeros(program.num_accesses, bool)
    for since, last in program.holds.tolist():
        end = int(program.access_instruction[last])
        meanwhile = np.arange(since, program.access_start[end])
        meanwhile = meanwhile[program.access_buffer[meanwhile] == program.access_buffer[since]]
        access["until"][meanwhile] = np.maximum(access["until"][meanwhile], end)
        access["beside"][meanwhile[1:]] = since
        access["own"][since] = max(int(access["own"][since]), end)
        held[meanwhile] = True
    return held


def returns(program: Program, holder: NDArray[np.int64], access: Rows, may: NDArray[np.bool_]) -> Rows:
    """Returns `[A]` of what a loop holds and only reads, from when its place may be taken, and when it comes back.

    Args:
      program: the program.
      holder: `[A]` the loop that holds the buffer of an access, or -1.
      access: the accesses.
      may: `[A]` the accesses for which that pays.
    """
    step, next_of, loop_of = program.access_instruction.tolist(), access["next"].tolist(), program.loop.tolist()
    returning = np.zeros(program.num_accesses, RETURN)
    returning["let_go"], returning["back"] = access["until"], -1
    for index in np.flatnonzero((holder >= 0) & (access["carried"] == 0) & may).tolist():
        loop = int(holder[index])
        first, last = int(program.loop_first[loop]), int(program.loop_last[loop])
        _, end = _inside(program, loop, step[index])
        following = next_of[index]
        while following >= 0 and step[following] <= end:
            following = next_of[following]
        if following >= 0 and step[following] <= last:
            back, _ = _inside(program, loop, step[following])
            latest = back - 1
        else:
            back, latest = last + 1, last - 1
        begin = back
        while begin > first and loop_of[begin - 1] == loop:
            begin -= 1
        if begin == back and (back > last or loop_of[back - 1] == loop):
            continue  # the body ends with an inner loop
        earliest = max(begin - 1, first)
        if end < latest and earliest <= latest:
            returning[index] = (end, back, earliest, latest)
    return returning


def _inside(program: Program, loop: int, t: int) -> tuple[int, int]:
    """Returns first and last instruction of the outermost loop inside `loop` around instruction `t`; else `t` twice."""
    inner = int(program.loop[t])
    if inner == loop:
        return t, t
    while program.loop_parent[inner] != loop:
        inner = int(program.loop_parent[inner])
    return int(program.loop_first[inner]), int(program.loop_last[inner])
