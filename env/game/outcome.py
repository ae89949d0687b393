"""The outcome of a finished game: its mapping, and the seconds by which the objective judges it.

`outcome` comes to the same figure as `Judge.judge` of the game's mapping without building that mapping: it takes the
copies from the state as `mapping_of` does, prices instructions as the cost models do, and runs the simulator's event
loop. Compiled searches call it once per game.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..compiled.sorting import ascending
from ..compiled.unowned import unowned
from ..physics.cost import CYCLES, MSA
from ..physics.objective import Judge
from ..physics.simulator import copy_trips, loops_of, run_schedule
from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from ..program.program import OPERAND, Program
from .clock import cycles_run_seconds, msa_run_seconds
from .columns import (
    A_BUFFER,
    A_DUE,
    A_INSTRUCTION,
    A_KIND,
    A_NEXT,
    B_OUTPUT,
    B_SIZE,
    C_COPIES,
    C_RESIDENCIES,
    COPY_BUFFER,
    COPY_DIRECTION,
    COPY_END,
    COPY_START,
    D_FAST,
    D_KEY,
    D_SAVING,
    IF_BYTES,
    IF_WEIGHT,
    L_INSTRUCTIONS,
    L_WRITE_BACKS,
    R_HBM,
    RESIDENCY_BUFFER,
    RESIDENCY_END,
    RESIDENCY_OFFSET,
    RESIDENCY_START,
)
from .state import State
from .tables import Tables


class Scoring(NamedTuple):
    """The objective in the form that `outcome` takes. Shapes: `T` instructions, `L` loops.

    Attributes:
      baseline: `[2]` seconds of the baseline under `msa` and `cycles`; 0 for a model that does not count.
      unit_s: `[1]` seconds by which the worse ratio is multiplied.
      loop: `[T + 1]` the innermost loop, -1 outside all loops.
      loop_parent: `[L]` the enclosing loop, or -1.
    """

    baseline: NDArray[np.float64]
    unit_s: NDArray[np.float64]
    loop: NDArray[np.int64]
    loop_parent: NDArray[np.int64]


def make_scoring(judge: Judge) -> Scoring:
    """Returns the objective of a judge."""
    baseline = np.array([judge.baseline[model] if model in judge.models else 0.0 for model in (MSA, CYCLES)])
    return Scoring(baseline, np.array([judge.baseline[judge.models[0]]]), *loops_of(judge.program))


def mapping_of(program: Program, tables: Tables, state: State) -> Mapping:
    """Returns the mapping of a finished game."""
    rows = state.residency[: state.counters[C_RESIDENCIES]]
    residencies = np.zeros((len(rows), len(RESIDENCY_FIELDS)), np.int64)
    residencies[:, 0] = rows[:, RESIDENCY_BUFFER]
    residencies[:, 1] = rows[:, RESIDENCY_START]
    residencies[:, 2] = rows[:, RESIDENCY_END]
    residencies[:, 3] = rows[:, RESIDENCY_OFFSET]
    residencies[:, 5] = program.size[rows[:, RESIDENCY_BUFFER]]
    residencies = residencies[np.lexsort((residencies[:, 0], residencies[:, 1]))]

    rows = copies_of(tables, state, len(program.loop_trips) > 0)
    copies = np.zeros((len(rows), len(COPY_FIELDS)), np.int64)
    copies[:, 0] = rows[:, COPY_BUFFER]
    copies[:, 1] = rows[:, COPY_DIRECTION]
    copies[:, 2] = rows[:, COPY_START]
    copies[:, 3] = rows[:, COPY_END]
    copies[:, 5] = program.size[rows[:, COPY_BUFFER]]
    copies[:, 6] = rows[:, COPY_BUFFER]
    copies[:, 7] = -1
    return Mapping(program.sha256, state.access_fast.astype(bool), residencies, copies, {"solver": "game"})


@njit(cache=True, nogil=True)
def outcome(tables: Tables, scoring: Scoring, state: State) -> float:
    """Returns the seconds by which the objective judges a finished game."""
    tables, state = unowned(tables), unowned(state)
    copies = copies_of(tables, state, len(scoring.loop_parent) > 0)
    steps = tables.limits[L_INSTRUCTIONS]
    run_s, hbm_s = np.empty(steps), np.empty(steps)
    weight = tables.instruction_f[:steps, IF_WEIGHT]
    work_s, copy_weight = np.empty(len(copies)), np.ones(len(copies))
    for row in range(len(copies)):
        work_s[row] = tables.buffer[copies[row, COPY_BUFFER], B_SIZE] / tables.rates[R_HBM]
        if copies[row, COPY_DIRECTION] == CROSS_PROGRAM:
            work_s[row] = 0.0  # steady: the previous execution has issued it
        if len(scoring.loop_parent) > 0:
            copy_weight[row] = copy_trips(
                scoring.loop, scoring.loop_parent, weight, copies[row, COPY_START], copies[row, COPY_END]
            )
    is_write = copies[:, COPY_DIRECTION] == WRITE_BACK
    worst = 0.0
    for model in range(2):
        if scoring.baseline[model] <= 0.0:
            continue
        for t in range(steps):
            hbm_s[t] = max(0.0, tables.instruction_f[t, IF_BYTES] - state.step_f[t, D_FAST]) / tables.rates[R_HBM]
            if model == 0:
                run_s[t] = msa_run_seconds(tables, t, state.step_f[t, D_FAST])
            else:
                run_s[t] = cycles_run_seconds(tables, t, state.step[t, D_KEY], state.step_f[t, D_SAVING])
                hbm_s[t] = min(hbm_s[t], run_s[t])
        seconds = run_schedule(
            run_s, hbm_s, weight, is_write, copies[:, COPY_START], copies[:, COPY_END], work_s.copy(), copy_weight
        )[0]
        worst = max(worst, seconds / scoring.baseline[model])
    return worst * scoring.unit_s[0]


@njit(cache=True, nogil=True)
def copies_of(tables: Tables, state: State, has_loops: bool) -> np.ndarray:
    """Returns `[C, 4]` the copies of a finished game's mapping in the order of issue, columns as in `State.copy`.

    Write-backs whose copy in HBM nothing reads are left out. Without loops the due instructions of the others are moved
    as late as possible (`_relax`).
    """
    tables, state = unowned(tables), unowned(state)
    count = state.counters[C_COPIES]
    accesses = len(tables.access)
    needed = np.ones(count, np.bool_)
    access_of = np.full(count, -1, np.int64)
    prefetch_of = np.full(accesses, -1, np.int64)
    pending = np.full(len(tables.buffer), -1, np.int64)
    row = 0  # copies were booked in the order of accesses, those of carried buffers after the loop
    for access in range(accesses):
        owner, t = tables.access[access, A_BUFFER], tables.access[access, A_INSTRUCTION]
        while _leaves_loop(state, row, t):
            needed[row] = False
            pending[state.copy[row, COPY_BUFFER]] = row
            row += 1
        mine = row < count and state.copy[row, COPY_BUFFER] == owner
        if tables.access[access, A_KIND] == OPERAND:
            due = tables.access[access, A_DUE]
            prefetched = mine and state.copy[row, COPY_DIRECTION] == PREFETCH and state.copy[row, COPY_END] == due
            if (prefetched or not state.access_fast[access]) and pending[owner] >= 0:
                needed[pending[owner]] = True
            if prefetched:
                prefetch_of[access] = row
            if prefetched or (mine and state.copy[row, COPY_DIRECTION] == CROSS_PROGRAM):
                row += 1
        else:
            pending[owner] = -1
            if mine and state.copy[row, COPY_DIRECTION] == WRITE_BACK and state.copy[row, COPY_START] == t:
                needed[row] = False
                access_of[row] = access
                pending[owner] = row
                row += 1
    while _leaves_loop(state, row, tables.limits[L_INSTRUCTIONS]):
        needed[row] = False
        pending[state.copy[row, COPY_BUFFER]] = row
        row += 1
    for owner in range(len(tables.buffer)):
        if tables.buffer[owner, B_OUTPUT] and pending[owner] >= 0:
            needed[pending[owner]] = True
    kept = np.flatnonzero(needed)
    order = kept[ascending(state.copy[kept, COPY_START])]
    copies = state.copy[order].copy()
    if not has_loops:
        _relax(tables, state, copies, order, access_of, prefetch_of)
    return copies


@njit(cache=True, nogil=True, forceinline=True)
def _leaves_loop(state: State, row: int, until: int) -> bool:
    """Returns whether copy `row` is the write-back of a carried buffer, issued after a loop and before instruction
    `until`. No earlier access has booked it."""
    if row == state.counters[C_COPIES] or state.copy[row, COPY_DIRECTION] != WRITE_BACK:
        return False
    return bool(state.copy[row, COPY_START] < until)


@njit(cache=True, nogil=True, forceinline=True)
def _relax(
    tables: Tables,
    state: State,
    copies: np.ndarray,
    order: np.ndarray,
    access_of: np.ndarray,
    prefetch_of: np.ndarray,
) -> None:
    """Moves the due instruction of each write-back as late as its readers, its residency and the limit in flight allow.

    The game takes a write-back as complete once idle HBM time has covered it. Where prefetches compete for that time it
    completes later, and a due instruction with slack spares the wait.
    """
    head = np.full(len(tables.buffer), -1, np.int64)
    following = np.empty(state.counters[C_RESIDENCIES], np.int64)
    for row in range(state.counters[C_RESIDENCIES]):
        following[row] = head[state.residency[row, RESIDENCY_BUFFER]]
        head[state.residency[row, RESIDENCY_BUFFER]] = row
    most = tables.limits[L_WRITE_BACKS]
    in_flight = np.zeros(tables.limits[L_INSTRUCTIONS] + 1, np.int64)
    for k in range(len(copies)):
        if copies[k, COPY_DIRECTION] == WRITE_BACK:
            in_flight[copies[k, COPY_START] + 1 : copies[k, COPY_END]] += 1
    for k in range(len(copies)):
        if copies[k, COPY_DIRECTION] != WRITE_BACK:
            continue
        start, due = copies[k, COPY_START], copies[k, COPY_END]
        row = head[copies[k, COPY_BUFFER]]
        while not state.residency[row, RESIDENCY_START] <= start <= state.residency[row, RESIDENCY_END]:
            row = following[row]
        latest = state.residency[row, RESIDENCY_END] + 1
        access = tables.access[access_of[order[k]], A_NEXT]
        while access >= 0:
            t = tables.access[access, A_INSTRUCTION]
            is_result = tables.access[access, A_KIND] != OPERAND
            if t > start and (is_result or not state.access_fast[access]):
                latest = min(latest, t)
            if prefetch_of[access] >= 0:
                latest = min(latest, state.copy[prefetch_of[access], COPY_START])
            if is_result and t > start:
                break
            access = tables.access[access, A_NEXT]
        while due < latest and in_flight[due] < most:
            in_flight[due] += 1
            due += 1
        copies[k, COPY_END] = due
