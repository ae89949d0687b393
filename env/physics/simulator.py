"""The simulator: the latency of a mapping, computed here alone and from the mapping alone."""

import threading
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..program.mapping import CROSS_PROGRAM, WRITE_BACK, Mapping
from ..program.program import Program
from ..program.target import Target
from .cost import instruction_times
from .event_loop import Schedule, loops_of, new_schedule, simulate_schedule, weigh_copies

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
    replaced = replaces >= 0
    if replaced.any():
        run_s[replaces[replaced]] = 0.0
        hbm_s[replaces[replaced]] = 0.0
    work_s = (high - low) / target.hbm_bandwidth
    if start == "steady":
        work_s[direction == CROSS_PROGRAM] = 0.0
    order = np.argsort(issued, kind="stable")
    steps, count = program.num_instructions, len(buffer)
    schedule = _schedule(steps, count)
    instructions, copies = schedule.instruction[:steps], schedule.copy[:count]
    instructions["run_s"], instructions["hbm_s"], instructions["weight"] = run_s, hbm_s, program.weight
    copies["issued"], copies["due"], copies["work_s"] = issued[order], due[order], work_s[order]
    copies["is_write"] = direction[order] == WRITE_BACK
    copies["weight"] = 1.0
    if len(program.loop_trips):
        weigh_copies(loops_of(program), schedule)
    latency_s = simulate_schedule(schedule)
    copy_begin, copy_end = np.zeros(len(buffer)), np.zeros(len(buffer))
    copy_begin[order], copy_end[order] = np.maximum(copies["begin_s"], 0.0), np.maximum(copies["end_s"], 0.0)
    return Timeline(
        latency_s=latency_s,
        begin_s=instructions["begin_s"].copy(),
        run_s=run_s,
        compute_s=np.minimum(program.compute_s, run_s),
        hbm_s=hbm_s,
        wait_s=schedule.instruction["wait_s"][: steps + 1].copy(),
        waited_s=float(np.asarray(schedule.now)["waited_s"]),
        copy_begin_s=copy_begin,
        copy_end_s=copy_end,
    )


_kept = threading.local()


def _schedule(instructions: int, copies: int) -> Schedule:
    """Returns this thread's schedule, made anew only when it is too small."""
    schedule: Schedule | None = getattr(_kept, "schedule", None)
    if schedule is None or len(schedule.instruction) <= instructions or len(schedule.copy) < copies:
        schedule = _kept.schedule = new_schedule(2 * instructions, 2 * copies)
    now = np.asarray(schedule.now)  # a record of its own class is slow outside compiled code
    now["instructions"], now["copies"] = instructions, copies
    return schedule
