"""The static tables of a game: a program and a target as flat arrays for compiled code.

The fields of its records are listed in `records.py`.
"""

from collections import OrderedDict
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows, Struct, array, new_record, one, rows
from ..physics.cost import CYCLES, MSA, cycle_s, instruction_times
from ..physics.cycles import cycle_model, marginal_cycles
from ..physics.objective import Clock
from ..program.program import OPERAND, RESULT, Program
from ..program.target import Target
from .holding import HOLD_ALL, PerPass, held_over, last_steps
from .records import (
    ACCESS,
    BUFFER,
    HINTS,
    INSTRUCTION,
    LIMITS,
    NEVER,
    RATES,
    READ_LATER,
    RETURN,
    WRITTEN_OUT,
)


class Tables(Struct):
    """A program on a target. Shapes: `T` instructions, `A` accesses, `N` buffers, `H` slots of a hash table.

    Attributes:
      access: `[A]`.
      instruction: `[T + 1]`, the last for the end of the program.
      buffer: `[N]`.
      returning: `[A]` the return of what a loop holds.
      limits, rates: one record each.
      following: `[A + 1]` the first access from each one on (`A`: none) whose buffer a plan may place. Games by plan
        skip all others, which stay in HBM.
      cycle_keys, cycle_s: `[H]` the cycle table as an open-addressing hash table, `H` a power of two: keys (0: empty)
        and seconds. Empty without a cycle table.
    """

    access: Rows = rows(ACCESS)
    instruction: Rows = rows(INSTRUCTION)
    buffer: Rows = rows(BUFFER)
    returning: Rows = rows(RETURN)
    limits: Any = one(LIMITS)
    rates: Any = one(RATES)
    following: NDArray[np.int64] = rows(np.int64)
    cycle_keys: NDArray[np.int64] = array(np.int64, 1)
    cycle_s: NDArray[np.float64] = array(np.float64, 1)

    def hints(self) -> NDArray[np.int64]:
        """Returns `[A, 3]` the hints of a mapping to follow, columns `records.HINTS`."""
        return np.stack([self.access[name] for name in HINTS], axis=1)

    def set_hints(self, hints: NDArray[np.int64]) -> None:
        """Sets the hints `[A, 3]` of a mapping to follow."""
        for column, name in enumerate(HINTS):
            self.access[name] = hints[:, column]

    def own(self) -> "Tables":
        """Returns the same tables with accesses, buffers and rates of their own, which a game may change."""
        return self.replace(access=self.access.copy(), buffer=self.buffer.copy(), rates=self.rates.copy())


# Tables by their settings, of programs in use.
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
      window_slack: multiple of its need in idle time that a prefetch looks for.
      patience: multiple of its benefits that a move may cost in waits.
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
    steps, accesses, buffers = program.num_instructions, program.num_accesses, program.num_buffers
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
    outside = _weights_outside(program)
    for loop in range(len(program.loop_first) - 1, -1, -1):  # enclosing loops come first, and win
        instruction["entered"][program.loop_first[loop]] = outside[loop]
    all_hbm = _run_s(program, target, clock, np.zeros(accesses, bool))
    instruction["all_hbm_s"][:steps] = all_hbm
    instruction["clock_s"][1:] = np.cumsum(all_hbm)

    buffer = np.zeros(buffers, BUFFER)
    buffer["size"] = program.size
    buffer["aligned"] = -(-program.size // target.alignment) * target.alignment
    buffer["is_output"] = program.is_output
    buffer["is_input"] = program.definition < 0
    buffer["last_result"] = -1

    access = np.zeros(accesses, ACCESS)
    access["hint"] = -1
    access["since"] = NEVER
    access["out"] = NEVER
    access["buffer"] = program.access_buffer
    access["kind"] = program.access_kind
    access["instruction"] = program.access_instruction
    access["bytes"] = program.access_bytes
    access["benefit"], largest = _benefits(program, target, clock)
    holder, carried = held_over(program, per_pass)
    earliest = _earliest_starts(program)
    _add_prefetches(program, holder, earliest, outside, access)
    access["carried"] = carried
    access["ends"] = last_steps(program, per_pass)
    instruction["borders"][access["ends"][access["ends"] != NEVER]] = 1
    first_access = _chain(program, holder, access, buffer)
    beside = _hold(program, access)
    _mark_in_hbm(program, access, instruction["writes_back"])
    stays = access["in_hbm"] == 1
    access["benefit"][stays] = largest[stays] = 0.0
    _look_ahead(access)

    _mark_read_later(program, access, buffer, instruction)
    reserved = target.align(int(program.reserved.max(initial=0)))
    free = target.fast_bytes - reserved
    used = buffer["last"] >= 0
    may = np.zeros(buffers, bool)
    may[program.access_buffer[~stays]] = True
    buffer["played"] = program.fast_allowed & used & may & (program.size > 0) & (buffer["aligned"] <= free)
    live = np.zeros(steps + 1)
    played = np.flatnonzero(buffer["played"])
    np.add.at(live, access["due"][first_access[played]], buffer["aligned"][played])
    np.subtract.at(live, access["until"][buffer["last"][played]] + 1, buffer["aligned"][played])
    instruction["live"] = np.cumsum(live) / target.fast_bytes
    largest_of_buffer = np.bincount(program.access_buffer, weights=largest, minlength=buffers)
    all_hbm_s = all_hbm @ program.weight
    buffer["trivial"] = largest_of_buffer < trivial_share * all_hbm_s
    may_return = ((buffer["played"] == 1) & (buffer["trivial"] == 0))[program.access_buffer]
    returning = _returns(program, holder, access, may_return & ~beside)
    buffer["cross"] = buffer["played"] & buffer["is_input"] & (buffer["last_result"] < 0) & ~buffer["trivial"] & 1
    buffer["cross"][[owner for owner, _ in per_pass]] = 0
    refetch = earliest[steps]
    mean = instruction["clock_s"][steps] / max(steps, 1)
    limits = new_record(
        LIMITS,
        fast_bytes=target.fast_bytes,
        reserved=reserved,
        prefetches=target.max_prefetches,
        write_backs=target.max_write_backs,
        instructions=steps,
        window=max_window,
        refetch=refetch,
    )
    rates = new_record(
        RATES,
        hbm=target.hbm_bandwidth,
        fast=target.fast_bandwidth,
        mean_s=mean if mean > 0 else 1.0,
        msa=clock.msa,
        cycles=clock.cycles,
    )
    cycle_keys, seconds = np.zeros(2, np.int64), np.zeros(2)
    if clock.cycles > 0:
        cycle_keys, seconds = _add_cycles(program, target, access, instruction)
    return Tables(
        access=access,
        instruction=instruction,
        buffer=buffer,
        returning=returning,
        limits=limits,
        rates=rates,
        following=_next_placeable(access, buffer),
        cycle_keys=cycle_keys,
        cycle_s=seconds,
    )


def _next_placeable(access: Rows, buffer: Rows) -> NDArray[np.int64]:
    owner = access["buffer"]
    placeable = (buffer["played"][owner] == 1) & (buffer["trivial"][owner] == 0)
    return _first_from(placeable)


def _first_from(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns `[n + 1]` the first place from each one on that is `marked[n]`; `n` if there is none."""
    places = np.append(np.flatnonzero(marked), [len(marked)])
    return places[np.searchsorted(places, np.arange(len(marked) + 1))].astype(np.int64)


def _run_s(program: Program, target: Target, clock: Clock, access_fast: NDArray[np.bool_]) -> NDArray[np.float64]:
    """`[T]` seconds of the clock."""
    weights = ((MSA, clock.msa), (CYCLES, clock.cycles))
    run_s = np.zeros(program.num_instructions)
    for model, weight in weights:
        if weight > 0:
            run_s += weight * instruction_times(program, target, access_fast, model)[0]
    return run_s


def _benefits(program: Program, target: Target, clock: Clock) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the benefit of each access: weighted seconds of the clock that it saves when it is fast.

    Returns:
      `[A]` the benefit: under `msa` the saving with this access alone fast (XLA: `AlternateMemoryBenefit`); under
      `cycles` the mean of that and the saving with all others of the instruction fast too, since some instructions
      gain only if several accesses are. And `[A]` the larger of both in absolute value.
    """
    step = program.access_instruction
    in_hbm = np.maximum(program.compute_s, program.bytes_total / target.hbm_bandwidth)[step]
    bytes_total = program.bytes_total[step]
    fast = np.minimum(program.access_bytes, bytes_total)
    alone = np.maximum(
        program.compute_s[step], (bytes_total - fast) / target.hbm_bandwidth + fast / target.fast_bandwidth
    )
    benefit = clock.msa * (in_hbm - alone) * program.weight[step]
    at_stake = np.abs(benefit)
    if clock.cycles > 0:
        factor = clock.cycles * cycle_s(program, target) * program.weight[step]
        first, last = (saved * factor for saved in marginal_cycles(program))
        benefit = benefit + 0.5 * (first + last)
        at_stake = at_stake + np.maximum(np.abs(first), np.abs(last))
    return benefit, at_stake


def _add_cycles(
    program: Program,
    target: Target,
    access: Rows,
    instruction: Rows,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fills the columns of the cycle table; returns its pairs as a hash table of keys and seconds."""
    model, seconds = cycle_model(program), cycle_s(program, target)
    steps = program.num_instructions
    access["key"] = model.access_key
    access["saving_s"] = model.saving * seconds
    instruction["key"][:steps] = model.start_key
    costs = np.flatnonzero(model.row >= 0)
    for column, values in (("cycles_s", model.base), ("least_s", model.low), ("most_s", model.high)):
        instruction[column][costs] = values[model.row[costs]] * seconds
    slots = 2
    while slots < 2 * len(model.keys):
        slots *= 2
    keys, values = np.zeros(slots, np.int64), np.zeros(slots)
    for key, cycles in zip(model.keys.tolist(), model.cycles.tolist(), strict=True):
        slot = key & (slots - 1)
        while keys[slot] != 0:
            slot = (slot + 1) & (slots - 1)
        keys[slot], values[slot] = key, cycles * seconds
    return keys, values


def _earliest_starts(program: Program) -> NDArray[np.int64]:
    """`[T + 1]` the earliest `start` of a copy due at each instruction that stays inside one loop body."""
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


def _chain(
    program: Program,
    holder: NDArray[np.int64],
    access: Rows,
    buffer: Rows,
) -> NDArray[np.int64]:
    """Fills the columns that link an access to the others of its buffer, and a buffer to its last accesses.

    Returns:
      `[N]` the first access to each buffer, -1 if there is none.
    """
    owners, step, held = (column.tolist() for column in (program.access_buffer, program.access_instruction, holder))
    accesses, buffers = len(owners), program.num_buffers
    since = [-1] * accesses if program.held_since is None else program.held_since.tolist()
    first, last, following, tied = [-1] * buffers, [-1] * buffers, [-1] * accesses, [-1] * accesses
    for index, owner in enumerate(owners):
        previous = last[owner]
        if previous < 0:
            first[owner] = index
        else:
            following[previous] = index
            if held[index] >= 0 and held[index] == held[previous]:
                tied[index] = previous if tied[previous] < 0 else tied[previous]
            elif step[previous] == step[index]:
                tied[index] = previous
            elif since[index] >= 0:
                tied[index] = since[index] if tied[since[index]] < 0 else tied[since[index]]
        last[owner] = index
    access["next"], access["tied_to"], buffer["last"] = following, tied, last
    results = np.flatnonzero(program.access_kind == RESULT)
    buffer["last_result"][program.access_buffer[results]] = results  # the last one stands
    return np.array(first, np.int64)


def _look_ahead(access: Rows) -> None:
    ahead: list[float] = access["benefit"].tolist()
    following, ends = access["next"].tolist(), access["ends"].tolist()
    for index in range(len(ahead) - 1, -1, -1):
        if following[index] >= 0 and ends[index] == NEVER:
            ahead[index] += ahead[following[index]]
    access["ahead"] = ahead


def _mark_in_hbm(program: Program, access: Rows, writes_back: NDArray[np.int64]) -> None:
    """Fills `in_hbm` and `needed`. `writes_back[T]`: whether a write-back may be issued after an instruction."""
    stays_end = access["ends"] != NEVER
    if program.hbm_accesses is None and not stays_end.any():
        return
    _mark_needed(access, stays_end)
    too_late = (access["needed"] == 1) & (access["kind"] == RESULT) & (writes_back[access["instruction"]] == 0)
    root = np.where(access["tied_to"] >= 0, access["tied_to"], np.arange(len(access)))
    while (root != root[root]).any():  # what an instruction touches several times is tied in a chain
        root = root[root]
    decided_by = np.zeros(len(access), bool)
    decided_by[root[~program.access_allowed | too_late]] = True
    while True:
        in_hbm = decided_by[root]
        # A collective that runs meanwhile reads the buffer there too.
        beside = access["beside"][in_hbm & (access["beside"] >= 0)]
        if decided_by[root[beside]].all():
            break
        decided_by[root[beside]] = True
    access["in_hbm"] = in_hbm
    _mark_needed(access, stays_end)


def _mark_needed(access: Rows, stays_end: NDArray[np.bool_]) -> None:
    """Fills `needed`, given `in_hbm` and `[A]` whether a stay ends between an access and the next.

    HBM has to hold the value if a stay ends, or if one of the reads before the next write is in HBM or ends a stay.
    """
    by_buffer = np.argsort(access["buffer"], kind="stable")
    owner = access["buffer"][by_buffer]
    writes = access["kind"][by_buffer] != OPERAND
    in_hbm = (access["in_hbm"][by_buffer] == 1) | stays_end[by_buffer]
    in_hbm_next, written_next = _first_from(in_hbm)[1:], _first_from(writes)[1:]
    last = np.searchsorted(owner, owner, "right") - 1
    access["needed"][by_buffer] = stays_end[by_buffer] | ((in_hbm_next < written_next) & (in_hbm_next <= last))


def _mark_read_later(program: Program, access: Rows, buffer: Rows, instruction: Rows) -> None:
    """Fills `carried` of accesses in a loop that carries their buffer: is its last value read later, or an output?"""
    for index in np.flatnonzero(access["carried"])[::-1]:
        owner, until, following = access["buffer"][index], access["until"][index], access["next"][index]
        if following >= 0 and access["instruction"][following] <= until:
            access["carried"][index] = access["carried"][following]
        elif access["needed"][index] or (program.is_output[owner] and buffer["last_result"][owner] <= index):
            access["carried"][index] = WRITTEN_OUT
            instruction["writes_out"][until] = 1
        elif following >= 0 and access["kind"][following] == OPERAND:
            access["carried"][index] = READ_LATER
            instruction["writes_out"][until] = 1


def _add_prefetches(
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
      earliest: `[T + 1]`, `_earliest_starts`.
      outside: `[L]`, `_weights_outside`.
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


def _hold(program: Program, access: Rows) -> NDArray[np.bool_]:
    """Fills `beside`, and `until` of what collectives hold; returns `[A]` whether one holds the buffer after it."""
    access["beside"], access["alone"] = -1, access["until"]
    held = np.zeros(program.num_accesses, bool)
    for since, last in program.holds.tolist():
        end = int(program.access_instruction[last])
        meanwhile = np.arange(since, program.access_start[end])
        meanwhile = meanwhile[program.access_buffer[meanwhile] == program.access_buffer[since]]
        access["until"][meanwhile] = np.maximum(access["until"][meanwhile], end)
        access["beside"][meanwhile[1:]] = since
        held[meanwhile] = True
    return held


def _returns(program: Program, holder: NDArray[np.int64], access: Rows, may: NDArray[np.bool_]) -> Rows:
    """Returns `[A]` of what a loop holds and only reads, from when its place may be taken, and when it comes back.

    Args:
      program: the program.
      holder: `[A]` the loop that holds the buffer of an access, or -1.
      access: the accesses.
      may: `[A]` the accesses for which that is worth the while.
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


def _weights_outside(program: Program) -> NDArray[np.float64]:
    """Returns `[L]` how often each loop is entered."""
    outside = np.ones(len(program.loop_trips))
    for loop, parent in enumerate(program.loop_parent.tolist()):  # enclosing loops come first
        if parent >= 0:
            outside[loop] = outside[parent] * float(program.loop_trips[parent])
    return outside


def _earliest_before(program: Program, earliest: NDArray[np.int64], loop: int) -> int:
    """Returns the earliest `start` of a copy that is due before a loop is entered."""
    first, parent = int(program.loop_first[loop]), int(program.loop_parent[loop])
    if parent >= 0 and program.loop_first[parent] == first:
        return first  # no instruction of the enclosing body runs before it
    if first > 0 and program.loop[first - 1] == parent:
        return int(earliest[first - 1])
    return first - 1
