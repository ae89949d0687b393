"""The event loop of the simulator, in compiled code: `simulate` calls it for a mapping, and so does the outcome of a
finished game."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, routine
from ..compiled.sorting import sort_rows
from ..compiled.struct import Rows, Struct, new_record, one, rows
from ..program.program import Program

# An instruction, and the end of the program.
# run_s, hbm_s, weight  given: seconds of one execution, seconds of HBM in it, executions
# begin_s, wait_s       found: when it begins to run; seconds that it waits for copies first
_INSTRUCTION = np.dtype([(name, np.float64) for name in ("run_s", "hbm_s", "weight", "begin_s", "wait_s")])

# A copy. A copy of a finished game also has a buffer, a direction (`program.mapping`), and a row of the game's copies.
# issued, due, is_write  given: it is issued right after `issued` and complete before `due`; 1 for a write-back
# work_s, weight         given: its HBM seconds, its executions
# remaining_s            HBM seconds left
# begin_s, end_s         found: when it first and last moves bytes; below 0 if it never does
_COPY = np.dtype(
    [(name, np.int64) for name in ("issued", "due", "is_write", "buffer", "direction", "row")]
    + [(name, np.float64) for name in ("work_s", "weight", "remaining_s", "begin_s", "end_s")]
)
_RESULT = np.dtype(
    [("instructions", np.int64), ("copies", np.int64), ("latency_s", np.float64), ("waited_s", np.float64)]
)


class Schedule(Struct):
    """Instructions and copies in time. Shapes: `T` instructions and `C` copies at most.

    Attributes:
      instruction: `[T + 1]`, one more than there are: the end of the program.
      copy: `[C]` in the order of issue.
      now: how many instructions and copies there are; then latency and the sum of the waits in seconds, loop trips
        counted.
      key, by_due, spare, reads, writes: `[C]` what the event loop needs: sorting, and the copies issued of either
        direction.
    """

    instruction: Rows = rows(_INSTRUCTION)
    copy: Rows = rows(_COPY)
    now: Any = one(_RESULT)
    key: NDArray[np.int64] = rows(np.int64)
    by_due: NDArray[np.int64] = rows(np.int64)
    spare: NDArray[np.int64] = rows(np.int64)
    reads: NDArray[np.int64] = rows(np.int64)
    writes: NDArray[np.int64] = rows(np.int64)


def new_schedule(instructions: int, copies: int) -> Schedule:
    """Returns an empty schedule for this many instructions, and at most this many copies."""
    names = ("key", "by_due", "spare", "reads", "writes")
    return Schedule(
        instruction=np.zeros(instructions + 1, _INSTRUCTION),
        copy=np.zeros(copies, _COPY),
        now=new_record(_RESULT, instructions=instructions),
        **dict(zip(names, np.zeros((len(names), copies), np.int64), strict=True)),
    )


@kernel(Schedule, returns=float)
def simulate_schedule(schedule: Schedule) -> float:
    """Runs a schedule (`run_schedule`)."""
    sort_by_due(schedule)
    return run_schedule(schedule)


@routine
def sort_by_due(schedule: Schedule) -> None:
    """Fills `schedule.by_due`: the copies in the order of their due instructions."""
    for row in range(schedule.now.copies):
        schedule.key[row] = schedule.copy[row].due
    sort_rows(schedule.key, schedule.by_due, schedule.spare, schedule.now.copies)


@routine
def run_schedule(schedule: Schedule) -> float:
    """Runs the instructions in order, drains copies in the HBM time that they leave idle, and fills in what is found.

    The copies are sorted (`sort_by_due`), so that each instruction looks at its own only.

    Returns:
      Latency in seconds, loop trips counted.
    """
    instruction, copy, by_due = schedule.instruction, schedule.copy, schedule.by_due
    reads, writes = schedule.reads, schedule.writes
    steps, copies = schedule.now.instructions, schedule.now.copies
    for row in range(copies):
        copy[row].remaining_s = copy[row].work_s
        copy[row].begin_s = -1.0
        copy[row].end_s = -1.0
    reading, read, writing, written = 0, 0, 0, 0  # places in `reads` and `writes`: the first in flight, the end
    next_issue, next_due = 0, 0
    clock, latency, waited = 0.0, 0.0, 0.0
    for t in range(steps + 1):
        instruction[t].wait_s = 0.0
        while next_issue < copies and copy[next_issue].issued < t:
            if copy[next_issue].is_write:
                writes[written] = next_issue
                written += 1
            else:
                reads[read] = next_issue
                read += 1
            next_issue += 1
        while next_due < copies and copy[by_due[next_due]].due <= t:
            due = copy[by_due[next_due]]
            next_due += 1
            waited_here = 0.0
            while due.remaining_s > 0.0:
                # Waiting leaves HBM to the copies alone: advance to the next completion of either direction.
                step = np.inf
                active = 0
                if reading < read:
                    active += 1
                    step = min(step, copy[reads[reading]].remaining_s)
                if writing < written:
                    active += 1
                    step = min(step, copy[writes[writing]].remaining_s)
                if reading < read:
                    _move(copy[reads[reading]], step, clock + waited_here)
                if writing < written:
                    _move(copy[writes[writing]], step, clock + waited_here)
                waited_here += step * active
                if reading < read and copy[reads[reading]].remaining_s <= 0.0:
                    copy[reads[reading]].end_s = clock + waited_here
                    reading += 1
                if writing < written and copy[writes[writing]].remaining_s <= 0.0:
                    copy[writes[writing]].end_s = clock + waited_here
                    writing += 1
            clock += waited_here
            instruction[t].wait_s += waited_here
            latency += waited_here * due.weight
            waited += waited_here * due.weight
        if t == steps:
            break
        instruction[t].begin_s = clock
        hbm_s = instruction[t].hbm_s
        idle = max(0.0, instruction[t].run_s - hbm_s)
        used = 0.0
        while used < idle:
            step = np.inf
            active = 0
            while reading < read and _is_complete(copy[reads[reading]], clock):
                reading += 1
            if reading < read:
                active += 1
                step = min(step, copy[reads[reading]].remaining_s)
            while writing < written and _is_complete(copy[writes[writing]], clock):
                writing += 1
            if writing < written:
                active += 1
                step = min(step, copy[writes[writing]].remaining_s)
            if active == 0:
                break
            whole = step * active <= idle - used
            if not whole:
                step = (idle - used) / active
            begin, end = clock + hbm_s + used, clock + hbm_s + used + step * active
            if reading < read:
                _drain(copy[reads[reading]], step, begin, end)
            if writing < written:
                _drain(copy[writes[writing]], step, begin, end)
            used = idle if not whole else used + step * active
        clock += instruction[t].run_s
        latency += instruction[t].run_s * instruction[t].weight
    schedule.now.latency_s = latency
    schedule.now.waited_s = waited
    return latency


@routine
def _move(copy: Any, step: float, begin: float) -> None:
    """Takes `step` seconds off a copy while an instruction waits."""
    if copy.begin_s < 0.0:
        copy.begin_s = begin
    copy.remaining_s = 0.0 if copy.remaining_s <= step else copy.remaining_s - step


@routine
def _is_complete(copy: Any, clock: float) -> bool:
    """Returns whether a copy has nothing left to move; one that never had gets its time."""
    if copy.remaining_s > 0.0:
        return False
    if copy.end_s < 0.0:
        copy.begin_s = clock
        copy.end_s = clock
    return True


@routine
def _drain(copy: Any, step: float, begin: float, end: float) -> None:
    """Takes `step` seconds off a copy beside an instruction."""
    if copy.begin_s < 0.0:
        copy.begin_s = begin
    left = copy.remaining_s - step
    # Rounding must not leave a copy with a remainder that nothing can drain.
    copy.remaining_s = 0.0 if left <= 1e-12 * copy.work_s else left
    if copy.remaining_s == 0.0:
        copy.end_s = end


class Loops(Struct):
    """The loops of a program. Shapes: `T` instructions, `L` loops.

    Attributes:
      loop: `[T + 1]` the innermost loop of each instruction and of the end of the program, -1 outside all loops.
      parent: `[L]` the enclosing loop, or -1.
      trips: `[L]` executions of the body in one of the program.
      last: `[L]` the last instruction of the body.
    """

    loop: NDArray[np.int64] = rows(np.int64)
    parent: NDArray[np.int64] = rows(np.int64)
    trips: NDArray[np.float64] = rows(np.float64)
    last: NDArray[np.int64] = rows(np.int64)


# Loops of programs in use.
_loops: WeakKeyDictionary[Program, Loops] = WeakKeyDictionary()


def loops_of(program: Program) -> Loops:
    """Returns the loops of a program, found once."""
    if program not in _loops:
        _loops[program] = _find_loops(program)
    return _loops[program]


def _find_loops(program: Program) -> Loops:
    loop, parent = np.append(program.loop, [-1]).astype(np.int64), program.loop_parent.astype(np.int64)
    trips, last = program.loop_weight[:-1].copy(), program.loop_last.astype(np.int64)
    return Loops(loop=loop, parent=parent, trips=trips, last=last)


@kernel(Loops, Schedule)
def weigh_copies(loops: Loops, schedule: Schedule) -> None:
    """Fills in the executions of each copy."""
    for row in range(schedule.now.copies):
        schedule.copy[row].weight = copy_trips(loops, schedule.copy[row].issued, schedule.copy[row].due)


@routine
def copy_trips(loops: Loops, start: int, end: int) -> float:
    """Returns the executions of a copy from `start` to `end`: the trips of the innermost loop in which it runs.

    It starts after an instruction of that loop, and ends before one or with the body.
    """
    loop = loops.loop[start] if start >= 0 else -1
    while loop >= 0:
        last = loops.last[loop]
        if end <= last or (start < last and end == last + 1):
            return loops.trips[loop]
        loop = loops.parent[loop]
    return 1.0
