"""The outcome of a finished game: its mapping, and the seconds by which the objective judges it.

`outcome` gives the same figure as `Judge.judge` of the game's mapping, without building that mapping: it takes the
copies from the state as `mapping_of` does, prices instructions as the cost models do, and runs the simulator's event
loop. Compiled searches call it once per game.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import routine
from ..compiled.sorting import sort_rows
from ..compiled.struct import Struct, new_record, one, part, rows
from ..physics.cost import CYCLES, MSA
from ..physics.event_loop import Loops, Schedule, copy_trips, loops_of, new_schedule, run_schedule, sort_by_due
from ..physics.objective import Judge
from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import OPERAND, Program
from .clock import cycles_run_seconds, msa_run_seconds
from .state import State
from .tables import Tables

# Seconds of the baseline under `msa` and `cycles`, 0 for a model that does not count; seconds by which the worse ratio
# is multiplied.
_OBJECTIVE = np.dtype([("msa_s", np.float64), ("cycles_s", np.float64), ("unit_s", np.float64)])


class Scoring(Struct):
    """The objective in the form that `outcome` takes, with the space it works in. Shapes: `T` instructions, `A`
    accesses, `N` buffers, `R` residencies, `C` copies, `L` loops.

    Attributes:
      objective: one record.
      loops: the loops of the program.
      schedule: the finished game in time; `list_copies` fills in its copies.
      needed: `[C]` 1 if something reads what a copy brings, by rows of `State.copy`.
      access_of: `[C]` the access that booked a write-back, or -1.
      prefetch_of: `[A]` the prefetch for an access, a row of `State.copy`, or -1.
      pending: `[N]` the last write-back of a buffer, or -1.
      head, following: `[N]`, `[R]` lists of the residencies of each buffer.
      in_flight: `[T + 1]` write-backs in flight.
    """

    objective: Any = one(_OBJECTIVE)
    loops: Loops = part(Loops)
    schedule: Schedule = part(Schedule)
    needed: NDArray[np.int8] = rows(np.int8)
    access_of: NDArray[np.int64] = rows(np.int64)
    prefetch_of: NDArray[np.int64] = rows(np.int64)
    pending: NDArray[np.int64] = rows(np.int64)
    head: NDArray[np.int64] = rows(np.int64)
    following: NDArray[np.int64] = rows(np.int64)
    in_flight: NDArray[np.int64] = rows(np.int64)


def make_scoring(judge: Judge) -> Scoring:
    """Returns the objective of a judge."""
    program = judge.program
    accesses, buffers, steps = program.num_accesses, program.num_buffers, program.num_instructions
    # Each access books one copy at most, and one more that brings back what a loop holds.
    most = accesses + 1 + (accesses if len(program.loop_trips) else 0)
    lengths = {
        "access_of": most,
        "prefetch_of": accesses,
        "pending": buffers,
        "head": buffers,
        "following": most,
        "in_flight": steps + 1,
    }
    scoring = Scoring(
        objective=new_record(_OBJECTIVE),
        loops=loops_of(program),
        schedule=new_schedule(steps, most),
        needed=np.zeros(most, np.int8),
        **{name: np.zeros(length, np.int64) for name, length in lengths.items()},
    )
    baseline = [judge.baseline[model] if model in judge.models else 0.0 for model in (MSA, CYCLES)]
    scoring.objective.msa_s, scoring.objective.cycles_s = baseline
    scoring.objective.unit_s = judge.baseline[judge.models[0]]
    return scoring


def mapping_of(program: Program, state: State, scoring: Scoring) -> Mapping:
    """Returns the mapping of a finished game, whose copies `list_copies` has listed in `scoring`."""
    found = state.residency[: state.now.residencies]
    residencies = np.zeros((len(found), len(RESIDENCY_FIELDS)), np.int64)
    residencies[:, 0] = found["buffer"]
    residencies[:, 1] = found["start"]
    residencies[:, 2] = found["end"]
    residencies[:, 3] = found["offset"]
    residencies[:, 5] = program.size[found["buffer"]]
    residencies = residencies[np.lexsort((residencies[:, 0], residencies[:, 1]))]

    found = scoring.schedule.copy[: scoring.schedule.now.copies]
    copies = np.zeros((len(found), len(COPY_FIELDS)), np.int64)
    copies[:, 0] = found["buffer"]
    copies[:, 1] = found["direction"]
    copies[:, 2] = found["issued"]
    copies[:, 3] = found["due"]
    copies[:, 5] = program.size[found["buffer"]]
    copies[:, 6] = found["buffer"]
    copies[:, 7] = -1
    return Mapping(program.sha256, state.access_fast.astype(bool), residencies, copies, {"solver": "game"})


@routine
def outcome(tables: Tables, scoring: Scoring, state: State) -> float:
    """Returns the seconds by which the objective judges a finished game."""
    list_copies(tables, state, scoring)
    schedule = scoring.schedule
    instruction, copy = schedule.instruction, schedule.copy
    rates = tables.rates
    for row in range(schedule.now.copies):
        copy[row].work_s = tables.buffer[copy[row].buffer].size / rates.hbm
        if copy[row].direction == CROSS_PROGRAM:
            copy[row].work_s = 0.0  # steady: the previous execution has issued it
        copy[row].weight = 1.0
        if len(scoring.loops.parent) > 0:
            copy[row].weight = copy_trips(scoring.loops, copy[row].issued, copy[row].due)
    sort_by_due(schedule)
    worst = 0.0
    for model in range(2):
        baseline = scoring.objective.msa_s if model == 0 else scoring.objective.cycles_s
        if baseline <= 0.0:
            continue
        for t in range(tables.limits.instructions):
            step = state.step[t]
            hbm_s = max(0.0, tables.instruction[t].bytes - step.fast_bytes) / rates.hbm
            if model == 0:
                run_s = msa_run_seconds(tables, t, step.fast_bytes)
            else:
                run_s = cycles_run_seconds(tables, t, step.key, step.saving_s)
                hbm_s = min(hbm_s, run_s)
            instruction[t].run_s = run_s
            instruction[t].hbm_s = hbm_s
            instruction[t].weight = tables.instruction[t].weight
        worst = max(worst, run_schedule(schedule) / baseline)
    return worst * scoring.objective.unit_s


@routine
def list_copies(tables: Tables, state: State, scoring: Scoring) -> None:
    """Fills `scoring.schedule` with the copies of a finished game's mapping in the order of issue, without their times.

    Write-backs whose copy in HBM nothing reads are left out. Without loops the due instructions of the others are moved
    as late as possible (`_relax`).
    """
    count = state.now.copies
    needed, access_of = scoring.needed, scoring.access_of
    prefetch_of, pending = scoring.prefetch_of, scoring.pending
    for row in range(count):
        needed[row] = 1
        access_of[row] = -1
    for owner in range(len(tables.buffer)):
        pending[owner] = -1
    row = 0  # copies were booked in the order of accesses, those of carried buffers after the loop
    access = tables.movable[0]
    while access < len(tables.access):
        prefetch_of[access] = -1
        owner, t = tables.access[access].buffer, tables.access[access].instruction
        row = _pass_over(state, scoring, row, t)
        mine = row < count and state.copy[row].buffer == owner
        if tables.access[access].kind == OPERAND:
            due = tables.access[access].due
            prefetched = mine and state.copy[row].direction == PREFETCH and state.copy[row].end == due
            if (prefetched or not state.access_fast[access]) and pending[owner] >= 0:
                needed[pending[owner]] = 1
            if prefetched:
                prefetch_of[access] = row
            if prefetched or (mine and state.copy[row].direction == CROSS_PROGRAM):
                row += 1
        else:
            pending[owner] = -1
            if mine and state.copy[row].direction == WRITE_BACK and state.copy[row].start == t:
                needed[row] = tables.access[access].needed
                access_of[row] = access
                pending[owner] = row
                row += 1
        access = tables.movable[access + 1]
    _pass_over(state, scoring, row, tables.limits.instructions)
    for owner in range(len(tables.buffer)):
        if tables.buffer[owner].is_output and pending[owner] >= 0:
            needed[pending[owner]] = 1
    schedule = scoring.schedule
    copy, kept = schedule.copy, schedule.reads
    copies = 0
    for row in range(count):
        if needed[row]:
            kept[copies] = row
            schedule.key[copies] = state.copy[row].start
            copies += 1
    sort_rows(schedule.key, schedule.by_due, schedule.spare, copies)
    for k in range(copies):
        row = kept[schedule.by_due[k]]
        copy[k].row = row
        copy[k].buffer = state.copy[row].buffer
        copy[k].direction = state.copy[row].direction
        copy[k].is_write = 1 if state.copy[row].direction == WRITE_BACK else 0
        copy[k].issued = state.copy[row].start
        copy[k].due = state.copy[row].end
    schedule.now.copies = copies
    if len(scoring.loops.parent) == 0:
        _relax(tables, state, scoring)


@routine
def _pass_over(state: State, scoring: Scoring, row: int, until: int) -> int:
    """Goes through the copies from `row` on that no access has booked, up to instruction `until`; returns the next.

    They are the write-backs of carried buffers after a loop, and the prefetches that bring back what a loop holds.
    """
    while True:
        if _leaves_loop(state, row, until):
            scoring.needed[row] = 0
            scoring.pending[state.copy[row].buffer] = row
        elif row < state.now.copies and state.copy[row].again and state.copy[row].end <= until:
            if scoring.pending[state.copy[row].buffer] >= 0:
                scoring.needed[scoring.pending[state.copy[row].buffer]] = 1
        else:
            return row
        row += 1


@routine
def _leaves_loop(state: State, row: int, until: int) -> bool:
    """Returns whether copy `row` is the write-back of a carried buffer, issued after a loop and before instruction
    `until`. No earlier access has booked it."""
    if row == state.now.copies or state.copy[row].direction != WRITE_BACK:
        return False
    return bool(state.copy[row].start < until)


@routine
def _relax(tables: Tables, state: State, scoring: Scoring) -> None:
    """Moves the due instruction of each write-back as late as its readers, its residency and the limit in flight allow.

    The game takes a write-back as complete once idle HBM time has covered it. Where prefetches compete for that time it
    completes later, and a due instruction with slack spares the wait.
    """
    head, following, in_flight = scoring.head, scoring.following, scoring.in_flight
    copy, copies = scoring.schedule.copy, scoring.schedule.now.copies
    for owner in range(len(tables.buffer)):
        head[owner] = -1
    for row in range(state.now.residencies):
        following[row] = head[state.residency[row].buffer]
        head[state.residency[row].buffer] = row
    most = tables.limits.write_backs
    for t in range(tables.limits.instructions + 1):
        in_flight[t] = 0
    for k in range(copies):
        if copy[k].is_write:
            for t in range(copy[k].issued + 1, copy[k].due):
                in_flight[t] += 1
    for k in range(copies):
        if not copy[k].is_write:
            continue
        start, due = copy[k].issued, copy[k].due
        row = head[copy[k].buffer]
        while not state.residency[row].start <= start <= state.residency[row].end:
            row = following[row]
        latest = state.residency[row].end + 1
        access = tables.access[scoring.access_of[copy[k].row]].next
        while access >= 0:
            t = tables.access[access].instruction
            is_result = tables.access[access].kind != OPERAND
            if t > start and (is_result or not state.access_fast[access]):
                latest = min(latest, t)
            if scoring.prefetch_of[access] >= 0:
                latest = min(latest, state.copy[scoring.prefetch_of[access]].start)
            if is_result and t > start:
                break
            access = tables.access[access].next
        while due < latest and in_flight[due] < most:
            in_flight[due] += 1
            due += 1
        copy[k].due = due
