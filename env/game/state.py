"""How a game is laid out in flat arrays, so that compiled code steps it: columns, and the tables of one program.

Static tables (`build_tables`) belong to the program; a `State` is everything that changes while a game is played.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..physics.cost import CYCLES, MSA, cycle_s, instruction_times
from ..physics.cycles import cycle_model, marginal_cycles
from ..physics.objective import Clock
from ..program.program import OPERAND, RESULT, Program
from ..program.target import Target

NEVER = np.int64(2**62)  # an instruction index that is never reached

# Columns of Tables.access
A_BUFFER, A_KIND, A_INSTRUCTION, A_NEXT, A_TIED_TO, A_KEY, A_DUE, A_EARLIEST, A_UNTIL, A_CARRIED = range(10)
HINTS = A_HINT, A_SINCE, A_OUT = 10, 11, 12
# A_NEXT: the buffer's next access, or -1. A_TIED_TO: an earlier access that decides this one: the first in a loop that
# holds the buffer (`_held_over`); for an operand another operand on it, of the same instruction; for a result the
# operand it is written over in place; or -1. A_KEY: what it changes of its instruction's key in the cycle table if it
# is fast, by XOR. A_DUE: instruction that its prefetch is due at: its own, or the first of the loop that holds the
# buffer. A_EARLIEST: the earliest `start` of that prefetch that crosses no loop boundary. A_UNTIL: last instruction of
# that loop, or its own: if it is fast, the buffer is held until then. A_CARRIED: `CARRIED` if that loop also writes the
# buffer, `READ_LATER` if its value is read after the loop, `WRITTEN_OUT` if that has to reach HBM; else 0. A_HINT: the
# offset to take if that may be had then, or -1. A_SINCE: the instruction after which to issue its prefetch, A_OUT: the
# one before which a write-back of what it leaves is complete, or `NEVER`.
CARRIED, READ_LATER, WRITTEN_OUT = 1, 2, 3

# State.access_fast
IN_HBM, FAST, FAST_AND_OUT = range(3)
# FAST_AND_OUT: the first access in a loop that carries its buffer, which is written back after it.

# Columns of Tables.access_f
AF_BYTES, AF_BENEFIT, AF_AHEAD, AF_SAVING, AF_ONCE = range(5)
# AF_BENEFIT: weighted seconds the access saves by being fast (`_benefits`). AF_AHEAD: their sum from here to the
# buffer's last. AF_SAVING: seconds it saves by the completion of the cycle table. AF_ONCE: how often its prefetch runs
# per execution of its instruction: 1, or less if it runs before a loop.

# Columns of Tables.instruction
I_FIRST_ACCESS, I_OUTER, I_DRAIN, I_WRITES_BACK, I_KEY, I_WRITES_OUT = range(6)
# I_OUTER: first instruction of the outermost loop around it, or itself.
# I_DRAIN: 1 if pending write-backs must be complete before this instruction. I_WRITES_BACK: 1 if one may be issued
# after it. I_KEY: its key in the cycle table with nothing fast. I_WRITES_OUT: 1 if what a loop carried may be written
# back after it: it is the loop's last.

# Columns of Tables.instruction_f
IF_COMPUTE, IF_BYTES, IF_WEIGHT, IF_CLOCK, IF_HBM_RUN, IF_LIVE, IF_CYCLES, IF_LEAST, IF_MOST, IF_ENTERED = range(10)
# IF_CLOCK: all-in-HBM seconds before the instruction, loop trips counted once; IF_HBM_RUN: its all-in-HBM seconds.
# IF_LIVE: bytes of the buffers between their first and last access, relative to fast memory. IF_CYCLES, IF_LEAST,
# IF_MOST: seconds by the cycle table's completion: with nothing fast, and the least and most that was seen. IF_ENTERED:
# how often what comes before it waits at it: its weight, or less if it begins a loop.

# Columns of Tables.buffer
B_SIZE, B_ALIGNED, B_OUTPUT, B_PLAYED, B_LAST, B_INPUT, B_LAST_RESULT, B_TRIVIAL, B_CROSS = range(9)
# B_PLAYED: 1 if it may be placed at all. B_TRIVIAL: 1 if the game plays it itself. B_LAST: last access, -1 if none.
# B_LAST_RESULT: last result access, -1 if none. B_CROSS: 1 if the previous execution may have prefetched it.

# Tables.limits and Tables.rates
L_FAST, L_RESERVED, L_PREFETCHES, L_WRITE_BACKS, L_INSTRUCTIONS, L_WINDOW, L_REFETCH = range(7)
R_HBM, R_FAST, R_MEAN, R_MSA, R_CYCLES, R_SLACK, R_PATIENCE = range(7)
# R_MSA, R_CYCLES: the clock; what a second of each cost model counts (`objective.Clock`).

# Columns of State.buffer
S_RESIDENT, S_OFFSET, S_START, S_TOUCH, S_VALID, S_WRITE_BACK, S_RELEASE, S_GONE, S_SOURCE = range(9)
# S_VALID: first instruction that may read a valid copy in HBM, or NEVER. S_WRITE_BACK: its pending write-back, or -1.
# S_RELEASE: last instruction that must still find it in fast memory, were it overwritten now. S_SLOT: place in
# `holders`. S_GONE: last instruction of its previous residency, or -1. S_SOURCE: earliest `start` of a prefetch of its
# value in HBM.

# Columns of State.step_f, per instruction
D_FAST, D_FREE, D_WAIT, D_SAVING = range(4)
# D_FAST: bytes decided to be served from fast memory. D_FREE: HBM seconds left idle, once the instruction is final.
# D_SAVING: sum of AF_SAVING over the accesses decided fast.

# Columns of State.step, per instruction
D_PREFETCHES, D_ISSUED, D_ENDED, D_KEY = range(4)
# D_PREFETCHES: prefetches in flight. D_ISSUED: earliest due instruction of the prefetches issued right after it, or
# NEVER (row 0 stands for `start = -1`). D_ENDED: head of the list of residencies that end with it, or -1. D_KEY: key in
# the cycle table of what is decided so far.

# State.counters
(
    C_ACCESS,  # the access to decide next
    C_FINAL,  # instructions before this one are final
    C_HOLDERS,
    C_RESIDENCIES,
    C_COPIES,
    C_QUEUE_HEAD,
    C_QUEUE_TAIL,
    C_PLAN_START,  # the plan of the move that needs room: issue of the prefetch, ...
    C_PLAN_OFFSET,  # ... offset, -1 if there is none
    C_DECISIONS,
    C_EVICTIONS,
    C_STALLED,
    C_ENDING,  # residents may be at their end: 1 since one was last touched, or written back after that
    C_NAMED,  # the offset that the move names, or -1
    C_CROSS,  # the buffer that the previous execution has prefetched, or -1
    C_CROSS_OFFSET,  # the plan of a cross-program prefetch: offset, -1 if there is none
    C_UNTOUCHED,  # rows of `untouched`
    NUM_COUNTERS,
) = range(18)

# State.sums
(
    F_REWARD,  # weighted seconds saved by the moves so far
    F_PLAN_STALL,  # seconds the planned prefetch makes its instruction wait
    F_PLAN_VICTIMS,  # what the planned offset evicts, in weighted seconds per second
    F_PLAN_SUPPLY,  # idle HBM seconds found for the planned prefetch
    NUM_SUMS,
) = range(5)

# How many gaps of memory that nothing has used yet a game keeps in mind; more are forgotten, smallest first.
UNTOUCHED = 64

RESIDENCY_BUFFER, RESIDENCY_START, RESIDENCY_END, RESIDENCY_OFFSET, RESIDENCY_NEXT = range(5)
COPY_BUFFER, COPY_DIRECTION, COPY_START, COPY_END = range(4)


class Tables(NamedTuple):
    """What a game needs to know of a program. Shapes: `T` instructions, `A` accesses, `N` buffers.

    `cycle_keys` and `cycle_s` are an open-addressing hash table of the pairs of the cycle table: key (0: empty), and
    seconds. Without a cycle table it is empty.
    """

    access: NDArray[np.int64]  # [A, 13]
    access_f: NDArray[np.float64]  # [A, 5]
    instruction: NDArray[np.int64]  # [T + 1, 6]
    instruction_f: NDArray[np.float64]  # [T + 1, 10]
    buffer: NDArray[np.int64]  # [N, 9]
    limits: NDArray[np.int64]
    rates: NDArray[np.float64]
    cycle_keys: NDArray[np.int64]  # [H], a power of two
    cycle_s: NDArray[np.float64]  # [H]


class State(NamedTuple):
    """Everything that changes while a game is played. `R` residencies and `C` copies at most."""

    access_fast: NDArray[np.int8]  # [A]
    buffer: NDArray[np.int64]  # [N, 9]
    step: NDArray[np.int64]  # [T + 1, 4]
    step_f: NDArray[np.float64]  # [T + 1, 4]
    holders: NDArray[np.int64]  # [N + 1] buffers in fast memory now, by offset
    residency: NDArray[np.int64]  # [R, 5]
    copy: NDArray[np.int64]  # [C, 4]
    queue_s: NDArray[np.float64]  # [C] seconds of work left of pending write-backs, first in, first out
    queue_copy: NDArray[np.int64]  # [C]
    untouched: NDArray[np.int64]  # [UNTOUCHED, 2] lower and upper ends of what nothing has used yet, by offset
    counters: NDArray[np.int64]
    sums: NDArray[np.float64]


def build_tables(
    program: Program,
    target: Target,
    clock: Clock,
    max_window: int,
    trivial_share: float,
    window_slack: float = 1.0,
    patience: float = 1.0,
) -> Tables:
    """Returns the static tables of `program` on `target`.

    Args:
      program: the program.
      target: the hardware.
      clock: what the game counts in.
      max_window: no copy window is longer than this many instructions.
      trivial_share: the game itself plays buffers whose benefits sum to less than this share of the all-in-HBM latency.
      window_slack: multiple of its need in idle time that a prefetch looks for.
      patience: multiple of its benefits that a move may cost in waits.
    """
    steps, accesses, buffers = program.num_instructions, program.num_accesses, program.num_buffers
    instruction = np.zeros((steps + 1, 6), np.int64)
    instruction[:, I_FIRST_ACCESS] = program.access_start
    instruction[:, I_OUTER] = np.arange(steps + 1)
    for first, last in zip(program.loop_first[::-1], program.loop_last[::-1], strict=True):
        instruction[first : last + 1, I_OUTER] = first  # enclosing loops come first, and win
    # A write-back issued inside a loop body is complete before the body's last instruction; one issued before a loop is
    # complete before the loop.
    instruction[steps, I_DRAIN] = 1
    instruction[program.loop_first, I_DRAIN] = 1
    instruction[program.loop_last, I_DRAIN] = 1
    instruction[:, I_WRITES_BACK] = 1
    instruction[program.loop_last, I_WRITES_BACK] = 0

    instruction_f = np.zeros((steps + 1, 10))
    instruction_f[:steps, IF_COMPUTE] = program.compute_s
    instruction_f[:steps, IF_BYTES] = program.bytes_total
    instruction_f[:steps, IF_WEIGHT] = program.weight
    instruction_f[steps, IF_WEIGHT] = 1.0
    instruction_f[:, IF_ENTERED] = instruction_f[:, IF_WEIGHT]
    for loop in range(len(program.loop_first) - 1, -1, -1):  # enclosing loops come first, and win
        instruction_f[program.loop_first[loop], IF_ENTERED] = _loop_weight(program, int(program.loop_parent[loop]))
    all_hbm = _run_s(program, target, clock, np.zeros(accesses, bool))
    instruction_f[:steps, IF_HBM_RUN] = all_hbm
    instruction_f[1:, IF_CLOCK] = np.cumsum(all_hbm)

    buffer = np.zeros((buffers, 9), np.int64)
    buffer[:, B_SIZE] = program.size
    buffer[:, B_ALIGNED] = -(-program.size // target.alignment) * target.alignment
    buffer[:, B_OUTPUT] = program.is_output
    buffer[:, B_INPUT] = program.definition < 0
    buffer[:, B_LAST_RESULT] = -1

    access = np.zeros((accesses, 13), np.int64)
    access[:, A_HINT] = -1
    access[:, [A_SINCE, A_OUT]] = NEVER
    access[:, A_BUFFER] = program.access_buffer
    access[:, A_KIND] = program.access_kind
    access[:, A_INSTRUCTION] = program.access_instruction
    access_f = np.zeros((accesses, 5))
    access_f[:, AF_BYTES] = program.access_bytes
    access_f[:, AF_BENEFIT], largest = _benefits(program, target, clock)
    held_over, carried = _held_over(program)
    _add_prefetches(program, held_over, access, access_f)
    access[:, A_CARRIED] = carried
    first_access = _chain(program, held_over, access, access_f, buffer)

    _mark_read_later(program, access, buffer, instruction)
    reserved = target.align(int(program.reserved.max(initial=0)))
    room = target.fast_bytes - reserved
    used = buffer[:, B_LAST] >= 0
    buffer[:, B_PLAYED] = program.fast_allowed & used & (program.size > 0) & (buffer[:, B_ALIGNED] <= room)
    live = np.zeros(steps + 1)
    played = np.flatnonzero(buffer[:, B_PLAYED])
    np.add.at(live, access[first_access[played], A_DUE], buffer[played, B_ALIGNED])
    np.subtract.at(live, access[buffer[played, B_LAST], A_UNTIL] + 1, buffer[played, B_ALIGNED])
    instruction_f[:, IF_LIVE] = np.cumsum(live) / target.fast_bytes
    largest_of_buffer = np.bincount(program.access_buffer, weights=largest, minlength=buffers)
    all_hbm_s = all_hbm @ program.weight
    buffer[:, B_TRIVIAL] = largest_of_buffer < trivial_share * all_hbm_s
    buffer[:, B_CROSS] = (
        buffer[:, B_PLAYED] & buffer[:, B_INPUT] & (buffer[:, B_LAST_RESULT] < 0) & ~buffer[:, B_TRIVIAL] & 1
    )
    refetch = _earliest_starts(program)[steps]
    copies = (target.max_prefetches, target.max_write_backs)
    limits = np.array([target.fast_bytes, reserved, *copies, steps, max_window, refetch], np.int64)
    mean = instruction_f[steps, IF_CLOCK] / max(steps, 1)
    mean = mean if mean > 0 else 1.0
    rates = np.array(
        [target.hbm_bandwidth, target.fast_bandwidth, mean, clock.msa, clock.cycles, max(1.0, window_slack), patience]
    )
    cycle_keys, seconds = np.zeros(2, np.int64), np.zeros(2)
    if clock.cycles > 0:
        cycle_keys, seconds = _add_cycles(program, target, access, access_f, instruction, instruction_f)
    return Tables(access, access_f, instruction, instruction_f, buffer, limits, rates, cycle_keys, seconds)


def new_state(tables: Tables) -> State:
    """Returns a state with room for any game on `tables`; `core.reset` fills it."""
    accesses, buffers, steps = len(tables.access), len(tables.buffer), len(tables.instruction)
    return State(
        access_fast=np.zeros(accesses, np.int8),
        buffer=np.zeros((buffers, 9), np.int64),
        step=np.zeros((steps, 4), np.int64),
        step_f=np.zeros((steps, 4)),
        holders=np.zeros(buffers + 1, np.int64),
        # Each access begins at most one residency and one copy.
        residency=np.zeros((accesses + 1, 5), np.int64),
        copy=np.zeros((accesses + 1, 4), np.int64),
        queue_s=np.zeros(accesses + 1),
        queue_copy=np.zeros(accesses + 1, np.int64),
        untouched=np.zeros((UNTOUCHED, 2), np.int64),
        counters=np.zeros(NUM_COUNTERS, np.int64),
        sums=np.zeros(NUM_SUMS),
    )


def pooled_state(tables: Tables) -> tuple[NDArray[np.uint8], State]:
    """Returns a state whose arrays all lie in one block of bytes, so that one copy saves or restores it."""
    template: list[NDArray[Any]] = list(new_state(tables))
    places, end = [], 0
    for array in template:
        places.append(end)
        end += -(-array.nbytes // 64) * 64
    block = np.zeros(end, np.uint8)
    arrays = (
        block[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        for place, array in zip(places, template, strict=True)
    )
    return block, State(*arrays)


def _run_s(program: Program, target: Target, clock: Clock, access_fast: NDArray[np.bool_]) -> NDArray[np.float64]:
    """`[T]` seconds of the clock."""
    weights = ((MSA, clock.msa), (CYCLES, clock.cycles))
    run_s = np.zeros(program.num_instructions)
    for model, weight in weights:
        if weight > 0:
            run_s += weight * instruction_times(program, target, access_fast, model)[0]
    return run_s


def _benefits(program: Program, target: Target, clock: Clock) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns what each access saves by being served from fast memory, in weighted seconds of the clock.

    Returns:
      `[A]` its benefit: under `msa` what it saves alone (XLA: `AlternateMemoryBenefit`); under `cycles` the mean of
      that and what it saves where all others of the instruction are fast, since some instructions gain only if
      several are. And `[A]` the larger of both, without sign: what is at stake.
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
    access: NDArray[np.int64],
    access_f: NDArray[np.float64],
    instruction: NDArray[np.int64],
    instruction_f: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fills the columns that the cycle table needs; returns its pairs as a hash table of keys and seconds."""
    model, seconds = cycle_model(program), cycle_s(program, target)
    steps = program.num_instructions
    access[:, A_KEY] = model.access_key
    access_f[:, AF_SAVING] = model.saving * seconds
    instruction[:steps, I_KEY] = model.start_key
    costs = np.flatnonzero(model.row >= 0)
    for column, values in ((IF_CYCLES, model.base), (IF_LEAST, model.low), (IF_MOST, model.high)):
        instruction_f[costs, column] = values[model.row[costs]] * seconds
    room = 2
    while room < 2 * len(model.keys):
        room *= 2
    keys, values = np.zeros(room, np.int64), np.zeros(room)
    for key, cycles in zip(model.keys.tolist(), model.cycles.tolist(), strict=True):
        slot = key & (room - 1)
        while keys[slot] != 0:
            slot = (slot + 1) & (room - 1)
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


def _held_over(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns which loop holds the buffer of each access from its first instruction to its last, and carries it.

    Returns:
      `[A]` the outermost loop around the access that only reads its buffer, or writes it and finds it there in its next
      pass or after it; -1 if none. `[A]` `CARRIED` if that loop writes it, else 0.
    """
    held_over = np.full(program.num_accesses, -1, np.int64)
    carried = np.zeros(program.num_accesses, np.int64)
    everywhere = np.bincount(program.access_buffer, minlength=program.num_buffers)
    for loop, (first, last) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        low, high = program.access_start[first], program.access_start[last + 1]
        owners, kinds = program.access_buffer[low:high], program.access_kind[low:high]
        written = np.zeros(program.num_buffers, bool)
        written[owners[kinds == RESULT]] = True
        inside = np.bincount(owners, minlength=program.num_buffers)
        begins = np.full(program.num_buffers, RESULT)
        begins[owners[::-1]] = kinds[::-1]  # the first of each wins
        # Read before it is written: the value comes from the previous pass.
        outlives = (inside < everywhere) | (program.definition < 0) | program.is_output | (begins == OPERAND)
        free = held_over[low:high] < 0
        held_over[low:high][free & (~written | outlives)[owners]] = loop
        carried[low:high][free & (written & outlives)[owners]] = CARRIED
    return held_over, carried


def _chain(
    program: Program,
    held_over: NDArray[np.int64],
    access: NDArray[np.int64],
    access_f: NDArray[np.float64],
    buffer: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Fills the columns that lead from an access to others of its buffer, and to a buffer's last ones.

    Returns:
      `[N]` the first access to each buffer, -1 if there is none.
    """
    owners, step, held = (column.tolist() for column in (program.access_buffer, program.access_instruction, held_over))
    accesses, buffers = len(owners), program.num_buffers
    first, last, following, twin = [-1] * buffers, [-1] * buffers, [-1] * accesses, [-1] * accesses
    for index, owner in enumerate(owners):
        previous = last[owner]
        if previous < 0:
            first[owner] = index
        else:
            following[previous] = index
            if held[index] >= 0 and held[index] == held[previous]:
                twin[index] = previous if twin[previous] < 0 else twin[previous]
            elif step[previous] == step[index]:
                twin[index] = previous
        last[owner] = index
    ahead: list[float] = access_f[:, AF_BENEFIT].tolist()
    for index in range(accesses - 1, -1, -1):
        if following[index] >= 0:
            ahead[index] += ahead[following[index]]
    access[:, A_NEXT], access[:, A_TIED_TO], access_f[:, AF_AHEAD], buffer[:, B_LAST] = following, twin, ahead, last
    results = np.flatnonzero(program.access_kind == RESULT)
    buffer[program.access_buffer[results], B_LAST_RESULT] = results  # the last one stands
    return np.array(first, np.int64)


def _mark_read_later(
    program: Program, access: NDArray[np.int64], buffer: NDArray[np.int64], instruction: NDArray[np.int64]
) -> None:
    """Says of all accesses in a loop that carries their buffer what becomes of its last value."""
    for index in np.flatnonzero(access[:, A_CARRIED])[::-1]:
        owner, until, following = access[index, A_BUFFER], access[index, A_UNTIL], access[index, A_NEXT]
        if following >= 0 and access[following, A_INSTRUCTION] <= until:
            access[index, A_CARRIED] = access[following, A_CARRIED]
        elif program.is_output[owner] and buffer[owner, B_LAST_RESULT] <= index:
            access[index, A_CARRIED] = WRITTEN_OUT
            instruction[until, I_WRITES_OUT] = 1
        elif following >= 0 and access[following, A_KIND] == OPERAND:
            access[index, A_CARRIED] = READ_LATER
            instruction[until, I_WRITES_OUT] = 1


def _add_prefetches(
    program: Program, held_over: NDArray[np.int64], access: NDArray[np.int64], access_f: NDArray[np.float64]
) -> None:
    """Fills the columns that say when a prefetch for each access may run, and until when its buffer is held."""
    step = program.access_instruction
    earliest = _earliest_starts(program)
    access[:, A_DUE] = step
    access[:, A_UNTIL] = step
    access[:, A_EARLIEST] = earliest[step]
    access_f[:, AF_ONCE] = 1.0
    before = [_earliest_before(program, earliest, loop) for loop in range(len(program.loop_trips))]
    for index in np.flatnonzero(held_over >= 0):
        loop = held_over[index]
        first, parent = program.loop_first[loop], program.loop_parent[loop]
        access[index, A_DUE] = first
        access[index, A_UNTIL] = program.loop_last[loop]
        access[index, A_EARLIEST] = before[loop]
        outside = _loop_weight(program, parent)
        access_f[index, AF_ONCE] = outside / program.weight[step[index]] if program.weight[step[index]] > 0 else 1.0


def _loop_weight(program: Program, loop: int) -> float:
    """Returns how often the body of a loop runs; 1 outside of all."""
    weight = 1.0
    while loop >= 0:
        weight *= float(program.loop_trips[loop])
        loop = int(program.loop_parent[loop])
    return weight


def _earliest_before(program: Program, earliest: NDArray[np.int64], loop: int) -> int:
    """Returns the earliest `start` of a copy that is due before a loop is entered."""
    first, parent = int(program.loop_first[loop]), int(program.loop_parent[loop])
    if parent >= 0 and program.loop_first[parent] == first:
        return first  # nothing of the enclosing body runs before it: too late
    if first > 0 and program.loop[first - 1] == parent:
        return int(earliest[first - 1])
    return first - 1
