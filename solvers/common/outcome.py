"""What a finished game comes to, in compiled code: the same figures as `Judge.judge(game.mapping())`, much sooner.

The mapping is not built: its copies are taken from the state as `MallocGame.mapping` takes them (write-backs that
nothing reads left out, the others as late as their readers allow), and the simulator's event loop runs over them. A
test holds both together.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.sorting import ascending
from ...env.compiled.unowned import unowned
from ...env.game.game import MallocGame
from ...env.game.rules import _cycles_seconds, _msa_seconds
from ...env.game.state import (
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
    RESIDENCY_START,
    State,
    Tables,
)
from ...env.physics.cost import CYCLES, MSA
from ...env.physics.simulator import _run
from ...env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from ...env.program.program import OPERAND


class Scoring(NamedTuple):
    """How a finished game is judged. Shapes: `T` instructions, `L` loops.

    Attributes:
      baseline: `[2]` seconds of the baseline under `msa` and `cycles`; 0 for a model that does not count.
      unit_s: what the worse ratio is multiplied by.
      loop: `[T + 1]` innermost loop, -1 outside.
      loop_parent: `[L]`.
    """

    baseline: NDArray[np.float64]
    unit_s: NDArray[np.float64]
    loop: NDArray[np.int64]
    loop_parent: NDArray[np.int64]


def make_scoring(game: MallocGame) -> Scoring:
    """Returns how `game` is judged."""
    judge = game.judge
    baseline = np.array([judge.baseline[model] if model in judge.models else 0.0 for model in (MSA, CYCLES)])
    loop = np.append(game.program.loop, [-1]).astype(np.int64)
    unit_s = judge.baseline[judge.models[0]]
    return Scoring(baseline, np.array([unit_s]), loop, game.program.loop_parent.astype(np.int64))


@njit(cache=True, nogil=True)
def outcome(tables: Tables, scoring: Scoring, state: State) -> float:
    """Returns the seconds that the judge sees in a finished game."""
    tables, state = unowned(tables), unowned(state)
    copies = _copies(tables, scoring, state)
    steps = tables.limits[L_INSTRUCTIONS]
    run_s, hbm_s = np.empty(steps), np.empty(steps)
    weight = tables.instruction_f[:steps, IF_WEIGHT]
    work_s, copy_weight = np.empty(len(copies)), np.ones(len(copies))
    for row in range(len(copies)):
        work_s[row] = tables.buffer[copies[row, COPY_BUFFER], B_SIZE] / tables.rates[R_HBM]
        if copies[row, COPY_DIRECTION] == CROSS_PROGRAM:
            work_s[row] = 0.0  # steady: the previous execution has paid
        if len(scoring.loop_parent) > 0:
            copy_weight[row] = _trips(scoring, weight, copies[row, COPY_START], copies[row, COPY_END])
    is_write = copies[:, COPY_DIRECTION] == WRITE_BACK
    worst = 0.0
    for model in range(2):
        if scoring.baseline[model] <= 0.0:
            continue
        for t in range(steps):
            hbm_s[t] = max(0.0, tables.instruction_f[t, IF_BYTES] - state.step_f[t, D_FAST]) / tables.rates[R_HBM]
            if model == 0:
                run_s[t] = _msa_seconds(tables, t, state.step_f[t, D_FAST])
            else:
                run_s[t] = _cycles_seconds(tables, t, state.step[t, D_KEY], state.step_f[t, D_SAVING])
                hbm_s[t] = min(hbm_s[t], run_s[t])
        seconds = _run(
            run_s, hbm_s, weight, is_write, copies[:, COPY_START], copies[:, COPY_END], work_s.copy(), copy_weight
        )[0]
        worst = max(worst, seconds / scoring.baseline[model])
    return worst * scoring.unit_s[0]


@njit(cache=True, nogil=True, forceinline=True)
def _trips(scoring: Scoring, weight: np.ndarray, start: int, end: int) -> float:
    """Returns how often a copy runs: the trips of the innermost loop around both its ends."""
    outer = scoring.loop[end]
    while outer >= 0:
        inner = scoring.loop[start] if start >= 0 else -1
        while inner >= 0 and inner != outer:
            inner = scoring.loop_parent[inner]
        if inner >= 0:
            least = np.inf
            for t in range(len(weight)):
                loop = scoring.loop[t]
                while loop >= 0 and loop != outer:
                    loop = scoring.loop_parent[loop]
                if loop == outer:
                    least = min(least, weight[t])
            return least
        outer = scoring.loop_parent[outer]
    return 1.0


@njit(cache=True, nogil=True, forceinline=True)
def _copies(tables: Tables, scoring: Scoring, state: State) -> np.ndarray:
    """Returns the copies of the mapping in order of issue, columns as in `State.copy`."""
    count = state.counters[C_COPIES]
    accesses = len(tables.access)
    needed = np.ones(count, np.bool_)
    access_of = np.full(count, -1, np.int64)
    prefetch_of = np.full(accesses, -1, np.int64)
    pending = np.full(len(tables.buffer), -1, np.int64)
    row = 0  # copies were booked in order of access, those of what a loop carried after its last instruction
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
    if len(scoring.loop_parent) == 0:
        _relax(tables, state, copies, order, access_of, prefetch_of)
    return copies


@njit(cache=True, nogil=True, forceinline=True)
def _leaves_loop(state: State, row: int, until: int) -> bool:
    """Returns whether a copy is a write-back that was issued before instruction `until`. Asked at the next copy that an
    access may have booked, that is one of what a loop carried."""
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
    """Moves the due instruction of each write-back as late as its readers, its residency and the limit allow."""
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
