"""Builds the tables of a game, and keeps those of programs in use."""

from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows, new_record
from ..physics.objective import Clock
from ..program.program import Program
from ..program.target import Target
from .holding import HOLD_ALL, PerPass, held_over, last_steps
from .records import ACCESS, BUFFER, INSTRUCTION, LIMITS, NEVER, RATES
from .table_accesses import chain, first_from, look_ahead, mark_in_hbm, mark_read_later
from .table_loops import add_prefetches, earliest_starts, hold, returns, weights_outside
from .table_seconds import add_cycles, benefits, run_s
from .tables import Tables

# Tables of programs in use, by their settings.
_kept: "WeakKeyDictionary[Program, OrderedDict[Any, Tables]]" = WeakKeyDictionary()
_MOST_KEPT = 4


def build_tables(
    program: Program,
    target: Target,
    clock: Clock,
    max_window: int,
    trivial_share: float,
    window_slack: float = 1.0,
    patience: float = 1.0,
    per_pass: PerPass = HOLD_ALL,
) -> Tables:
    """Returns the static tables of `program` on `target`; the caller may change them.

    Args:
      program: the program.
      target: the hardware.
      clock: the weights of the cost models.
      max_window: longest copy window in instructions.
      trivial_share: buffers whose benefits sum to less than this share of the all-in-HBM latency are trivial.
      window_slack: idle time that a prefetch looks for, as a multiple of its need.
      patience: waits that a move may cost, as a multiple of its benefits.
      per_pass: the buffers that a loop does not hold (`holding.py`).
    """
    settings = target, clock, max_window, trivial_share, per_pass
    known = _kept.setdefault(program, OrderedDict())
    if settings not in known:
        if len(known) >= _MOST_KEPT:
            known.popitem(last=False)
        known[settings] = _build(program, *settings)
    tables = known[settings].own()
    tables.rates.slack, tables.rates.patience = max(1.0, window_slack), patience
    return tables


def _build(
    program: Program, target: Target, clock: Clock, max_window: int, trivial_share: float, per_pass: PerPass
) -> Tables:
    outside, earliest = weights_outside(program), earliest_starts(program)
    all_hbm = run_s(program, target, clock, np.zeros(program.num_accesses, bool))
    instruction = _instructions(program, outside, all_hbm)
    buffer = _buffers(program, target)
    access = _accesses(program)
    holder, access["carried"] = held_over(program, per_pass)
    access["ends"] = last_steps(program, per_pass)
    instruction["borders"][access["ends"][access["ends"] != NEVER]] = 1
    access["benefit"], largest = benefits(program, target, clock)
    add_prefetches(program, holder, earliest, outside, access)
    first_access = chain(program, holder, access, buffer)
    beside = hold(program, access)
    mark_in_hbm(program, access, instruction["writes_back"])
    stays = access["in_hbm"] == 1
    access["benefit"][stays] = largest[stays] = 0.0
    look_ahead(access)
    mark_read_later(program, access, buffer, instruction)

    reserved = target.align(int(program.reserved.max(initial=0)))
    _mark_played(program, access, buffer, target.fast_bytes - reserved)
    instruction["live"] = _live_bytes(access, buffer, first_access, program.num_instructions) / target.fast_bytes
    largest_of_buffer = np.bincount(program.access_buffer, weights=largest, minlength=program.num_buffers)
    buffer["trivial"] = largest_of_buffer < trivial_share * (all_hbm @ program.weight)
    movable = (buffer["played"] == 1)[program.access_buffer]
    placeable = movable & (buffer["trivial"] == 0)[program.access_buffer]
    buffer["cross"] = buffer["played"] & buffer["is_input"] & (buffer["last_result"] < 0) & ~buffer["trivial"] & 1
    buffer["cross"][[owner for owner, _ in per_pass]] = 0
    cycle_keys, seconds = np.zeros(2, np.int64), np.zeros(2)
    if clock.cycles > 0:
        cycle_keys, seconds = add_cycles(program, target, access, instruction)
    return Tables(
        access=access,
        instruction=instruction,
        buffer=buffer,
        returning=returns(program, holder, access, placeable & ~beside),
        limits=new_record(
            LIMITS,
            fast_bytes=target.fast_bytes,
            reserved=reserved,
            prefetches=target.max_prefetches,
            write_backs=target.max_write_backs,
            instructions=program.num_instructions,
            window=max_window,
            refetch=earliest[-1],
        ),
        rates=new_record(
            RATES,
            hbm=target.hbm_bandwidth,
            fast=target.fast_bandwidth,
            mean_s=_mean_s(instruction),
            msa=clock.msa,
            cycles=clock.cycles,
        ),
        following=first_from(placeable),
        movable=first_from(movable),
        cycle_keys=cycle_keys,
        cycle_s=seconds,
    )


def _instructions(program: Program, outside: NDArray[np.float64], all_hbm: NDArray[np.float64]) -> Rows:
    """Returns `[T + 1]` the instructions, given `weights_outside`, and `[T]` their seconds with everything in HBM."""
    steps = program.num_instructions
    instruction = np.zeros(steps + 1, INSTRUCTION)
    instruction["first_access"] = program.access_start
    instruction["outer"] = np.arange(steps + 1)
    for first, last in zip(program.loop_first[::-1], program.loop_last[::-1], strict=True):
        instruction["outer"][first : last + 1] = first  # enclosing loops come first, and win
    # A write-back issued inside a loop body is complete before the body's last instruction; one issued before a loop is
    # complete before the loop.
    instruction["drains"][steps] = 1
    instruction["drains"][program.loop_first] = 1
    instruction["drains"][program.loop_last] = 1
    instruction["ends_loop"][program.loop_last] = 1
    instruction["writes_back"] = 1
    instruction["writes_back"][program.loop_last] = 0

    instruction["compute_s"][:steps] = program.compute_s
    instruction["bytes"][:steps] = program.bytes_total
    instruction["weight"][:steps] = program.weight
    instruction["weight"][steps] = 1.0
    instruction["entered"] = instruction["weight"]
    for loop in range(len(program.loop_first) - 1, -1, -1):  # enclosing loops come first, and win
        instruction["entered"][program.loop_first[loop]] = outside[loop]
    instruction["all_hbm_s"][:steps] = all_hbm
    instruction["clock_s"][1:] = np.cumsum(all_hbm)
    return instruction


def _mean_s(instruction: Rows) -> float:
    """Returns the mean seconds of an instruction, 1 if all take none."""
    mean = float(instruction["clock_s"][-1]) / max(len(instruction) - 1, 1)
    return mean if mean > 0 else 1.0


def _buffers(program: Program, target: Target) -> Rows:
    """Returns `[N]` the buffers, without what depends on their accesses."""
    buffer = np.zeros(program.num_buffers, BUFFER)
    buffer["size"] = program.size
    buffer["aligned"] = target.align(program.fast_size)
    buffer["is_output"] = program.is_output
    buffer["is_input"] = program.definition < 0
    buffer["last_result"] = -1
    return buffer


def _accesses(program: Program) -> Rows:
    """Returns `[A]` the accesses, without what depends on other accesses."""
    access = np.zeros(program.num_accesses, ACCESS)
    access["hint"] = -1
    access["since"] = NEVER
    access["out"] = NEVER
    access["buffer"] = program.access_buffer
    access["kind"] = program.access_kind
    access["instruction"] = program.access_instruction
    access["bytes"] = program.access_bytes
    return access


def _mark_played(program: Program, access: Rows, buffer: Rows, free: int) -> None:
    """Fills `played` of the buffers, of which `free` bytes may be in fast memory."""
    may = np.zeros(program.num_buffers, bool)
    may[program.access_buffer[access["in_hbm"] != 1]] = True
    used = buffer["last"] >= 0
    buffer["played"] = program.fast_allowed & used & may & (program.size > 0) & (buffer["aligned"] <= free)


def _live_bytes(access: Rows, buffer: Rows, first_access: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    """Returns `[T + 1]` the bytes of all played buffers between their first and last accesses."""
    live = np.zeros(steps + 1)
    played = np.flatnonzero(buffer["played"])
    np.add.at(live, access["due"][first_access[played]], buffer["aligned"][played])
    np.subtract.at(live, access["until"][buffer["last"][played]] + 1, buffer["aligned"][played])
    return np.cumsum(live)
