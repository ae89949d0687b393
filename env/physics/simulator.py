"""The simulator: the latency of a mapping, computed here alone and from the mapping alone.

`simulate` runs a mapping; `run_schedule` is its event loop, in compiled code, which a finished game calls as well.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..compiled.sorting import ascending
from ..errors import UserError
from ..program.mapping import CROSS_PROGRAM, WRITE_BACK, Mapping
from ..program.program import Program
from ..program.target import Target
from .cost import instruction_times

STARTS = ("steady", "cold")


@dataclass(frozen=True, eq=False)
class Timeline:
    """The course of one execution. Shapes: `T` instructions, `C` copies; times in seconds.

    Attributes:
      latency_s: seconds of the whole program, loop trips counted, waits included.
      begin_s: `[T]` the time at which the instruction begins to run, each loop body counted once.
      run_s: `[T]` seconds that one execution of it runs, waits excluded.
      compute_s: `[T]` the part of `run_s` that remains with infinitely fast memory.
      hbm_s: `[T]` seconds that it keeps HBM busy.
      wait_s: `[T + 1]` seconds that it waits for copies first; the last entry is the end of the program.
      waited_s: seconds of all waits, loop trips counted.
      copy_begin_s, copy_end_s: `[C]` the times at which each copy of the mapping first and last moves bytes, each loop
        body counted once; both 0 for a cross-program prefetch in a steady execution.
    """

    latency_s: float
    begin_s: NDArray[np.float64]
    run_s: NDArray[np.float64]
    compute_s: NDArray[np.float64]
    hbm_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    waited_s: float
    copy_begin_s: NDArray[np.float64]
    copy_end_s: NDArray[np.float64]


def simulate(program: Program, target: Target, mapping: Mapping, model: str = "msa", start: str = "steady") -> Timeline:
    """Runs a program under a mapping.

    Instructions run in order. Copies drain first in, first out per direction, in the HBM time that instructions leave
    idle, sharing it equally when both directions have work (XLA: `RuntimeSimulator`); an instruction waits for the
    copies due before it. A loop body is simulated once and its time weighed by the trip count.

    Args:
      program: the program.
      target: the hardware.
      mapping: a mapping that `verify` accepts.
      model: name of the cost model.
      start: `steady` (the previous execution issued the cross-program prefetches) or `cold`.

    Raises:
      UserError: an unknown cost model or start.
    """
    if start not in STARTS:
        raise UserError(f"start {start!r} is not known; choose one of {', '.join(STARTS)}")
    run_s, hbm_s = instruction_times(program, target, mapping.access_fast, model)
    buffer, direction, issued, due, low, high, _, replaces = mapping.copies.T
    done_by_copy = replaces[replaces >= 0]
    run_s[done_by_copy] = 0.0
    hbm_s[done_by_copy] = 0.0
    work_s = (high - low) / target.hbm_bandwidth
    if start == "steady":
        work_s = np.where(direction == CROSS_PROGRAM, 0.0, work_s)
    order = np.argsort(issued, kind="stable")
    outputs = run_schedule(
        run_s,
        hbm_s,
        program.weight,
        (direction == WRITE_BACK)[order],
        issued[order],
        due[order],
        work_s[order],
        _copy_weight(program, issued, due)[order],
    )
    latency_s, waited_s, begin_s, wait_s, copy_begin_s, copy_end_s = outputs
    copy_begin, copy_end = np.zeros(len(buffer)), np.zeros(len(buffer))
    copy_begin[order], copy_end[order] = copy_begin_s, copy_end_s
    return Timeline(
        latency_s, begin_s, run_s, np.minimum(program.compute_s, run_s), hbm_s, wait_s, waited_s, copy_begin, copy_end
    )


def _copy_weight(program: Program, issued: NDArray[np.int64], due: NDArray[np.int64]) -> NDArray[np.float64]:
    """Returns `[C]` the executions of each copy."""
    if not len(program.loop_trips):
        return np.ones(len(issued))
    loop, parent = loops_of(program)
    return np.array(
        [copy_trips(loop, parent, program.weight, start, end) for start, end in zip(issued, due, strict=True)]
    )


def loops_of(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the loops as `copy_trips` takes them: `[T + 1]` the innermost loop of each instruction and of the end of
    the program, -1 outside all loops; `[L]` the enclosing loop of each."""
    return np.append(program.loop, [-1]).astype(np.int64), program.loop_parent.astype(np.int64)


@njit(cache=True, nogil=True)
def copy_trips(loop: np.ndarray, loop_parent: np.ndarray, weight: np.ndarray, start: int, end: int) -> float:
    """Returns the executions of a copy from `start` to `end`: the trips of the innermost loop around both."""
    outer = loop[end]
    while outer >= 0:
        inner = loop[start] if start >= 0 else -1
        while inner >= 0 and inner != outer:
            inner = loop_parent[inner]
        if inner >= 0:
            least = np.inf
            for t in range(len(weight)):
                around = loop[t]
                while around >= 0 and around != outer:
                    around = loop_parent[around]
                if around == outer:
                    least = min(least, weight[t])
            return least
        outer = loop_parent[outer]
    return 1.0


@njit(cache=True)
def run_schedule(
    run_s: np.ndarray,
    hbm_s: np.ndarray,
    weight: np.ndarray,
    is_write: np.ndarray,
    issued: np.ndarray,
    due: np.ndarray,
    work_s: np.ndarray,
    copy_weight: np.ndarray,
) -> tuple[float, float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Runs the instructions in order, and drains copies in the HBM time that they leave idle.

    Args:
      run_s, hbm_s, weight: `[T]` seconds of one execution, seconds of HBM in it, executions.
      is_write, issued, due: `[C]` copies in the order of issue: direction, the instruction right after which the copy
        is issued, the instruction before which it must be complete.
      work_s, copy_weight: `[C]` HBM seconds of each copy, executions.

    Returns:
      Latency and the sum of the waits, in seconds, loop trips counted; `[T]` begin and `[T + 1]` wait of each
      instruction, `[C]` begin and end of each copy, in seconds, each loop body counted once.
    """
    steps, copies = len(run_s), len(issued)
    remaining = work_s.copy()
    begin_s, wait_s = np.zeros(steps), np.zeros(steps + 1)
    copy_begin, copy_end = np.full(copies, -1.0), np.full(copies, -1.0)
    queue = np.empty((2, copies + 1), np.int64)
    queued = np.zeros(2, np.int64)
    head = np.zeros(2, np.int64)
    # Copies sorted by due instruction, so that each instruction looks at its own only.
    by_due = ascending(due)
    next_issue, next_due = 0, 0
    clock, latency, waited = 0.0, 0.0, 0.0
    for t in range(steps + 1):
        while next_issue < copies and issued[next_issue] < t:
            direction = 1 if is_write[next_issue] else 0
            queue[direction, queued[direction]] = next_issue
            queued[direction] += 1
            next_issue += 1
        while next_due < copies and due[by_due[next_due]] <= t:
            copy = by_due[next_due]
            next_due += 1
            waited_here = 0.0
            while remaining[copy] > 0.0:
                # Waiting leaves HBM to the copies alone: advance to the next completion of either direction.
                step = np.inf
                active = 0
                for d in range(2):
                    if head[d] < queued[d]:
                        active += 1
                        step = min(step, remaining[queue[d, head[d]]])
                for d in range(2):
                    if head[d] < queued[d]:
                        first = queue[d, head[d]]
                        if copy_begin[first] < 0.0:
                            copy_begin[first] = clock + waited_here
                        remaining[first] = 0.0 if remaining[first] <= step else remaining[first] - step
                waited_here += step * active
                for d in range(2):
                    if head[d] < queued[d] and remaining[queue[d, head[d]]] <= 0.0:
                        copy_end[queue[d, head[d]]] = clock + waited_here
                        head[d] += 1
            clock += waited_here
            wait_s[t] += waited_here
            latency += waited_here * copy_weight[copy]
            waited += waited_here * copy_weight[copy]
        if t == steps:
            break
        begin_s[t] = clock
        idle = max(0.0, run_s[t] - hbm_s[t])
        used = 0.0
        while used < idle:
            step = np.inf
            active = 0
            for d in range(2):
                while head[d] < queued[d] and remaining[queue[d, head[d]]] <= 0.0:
                    if copy_end[queue[d, head[d]]] < 0.0:
                        copy_begin[queue[d, head[d]]] = copy_end[queue[d, head[d]]] = clock
                    head[d] += 1
                if head[d] < queued[d]:
                    active += 1
                    step = min(step, remaining[queue[d, head[d]]])
            if active == 0:
                break
            whole = step * active <= idle - used
            if not whole:
                step = (idle - used) / active
            for d in range(2):
                if head[d] < queued[d]:
                    first = queue[d, head[d]]
                    if copy_begin[first] < 0.0:
                        copy_begin[first] = clock + hbm_s[t] + used
                    left = remaining[first] - step
                    # Rounding must not leave a copy with a remainder that nothing can drain.
                    remaining[first] = 0.0 if left <= 1e-12 * work_s[first] else left
                    if remaining[first] == 0.0:
                        copy_end[first] = clock + hbm_s[t] + used + step * active
            used = idle if not whole else used + step * active
        clock += run_s[t]
        latency += run_s[t] * weight[t]
    return latency, waited, begin_s, wait_s, np.maximum(copy_begin, 0.0), np.maximum(copy_end, 0.0)
