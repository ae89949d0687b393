"""The static tables of a game: a program and a target as flat arrays for compiled code.

The columns are listed in `columns.py`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..physics.cost import CYCLES, MSA, cycle_s, instruction_times
from ..physics.cycles import cycle_model, marginal_cycles
from ..physics.objective import Clock
from ..program.program import OPERAND, RESULT, Program
from ..program.target import Target
from .columns import (
    A_BUFFER,
    A_CARRIED,
    A_DUE,
    A_EARLIEST,
    A_HINT,
    A_INSTRUCTION,
    A_KEY,
    A_KIND,
    A_NEXT,
    A_OUT,
    A_SINCE,
    A_TIED_TO,
    A_UNTIL,
    AF_AHEAD,
    AF_BENEFIT,
    AF_BYTES,
    AF_ONCE,
    AF_SAVING,
    B_ALIGNED,
    B_CROSS,
    B_INPUT,
    B_LAST,
    B_LAST_RESULT,
    B_OUTPUT,
    B_PLAYED,
    B_SIZE,
    B_TRIVIAL,
    CARRIED,
    I_DRAIN,
    I_FIRST_ACCESS,
    I_KEY,
    I_OUTER,
    I_WRITES_BACK,
    I_WRITES_OUT,
    IF_BYTES,
    IF_CLOCK,
    IF_COMPUTE,
    IF_CYCLES,
    IF_ENTERED,
    IF_HBM_RUN,
    IF_LEAST,
    IF_LIVE,
    IF_MOST,
    IF_WEIGHT,
    NEVER,
    READ_LATER,
    WRITTEN_OUT,
)


class Tables(NamedTuple):
    """A program on a target. Shapes: `T` instructions, `A` accesses, `N` buffers, `H` slots of a hash table.

    `cycle_keys` and `cycle_s` are an open-addressing hash table of the cycle table: key (0: empty) and seconds. It is
    empty without a cycle table.
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
      clock: the weights of the cost models.
      max_window: longest copy window in instructions.
      trivial_share: buffers whose benefits sum to less than this share of the all-in-HBM latency are trivial.
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
    free = target.fast_bytes - reserved
    used = buffer[:, B_LAST] >= 0
    buffer[:, B_PLAYED] = program.fast_allowed & used & (program.size > 0) & (buffer[:, B_ALIGNED] <= free)
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
    access: NDArray[np.int64],
    access_f: NDArray[np.float64],
    instruction: NDArray[np.int64],
    instruction_f: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Fills the columns of the cycle table; returns its pairs as a hash table of keys and seconds."""
    model, seconds = cycle_model(program), cycle_s(program, target)
    steps = program.num_instructions
    access[:, A_KEY] = model.access_key
    access_f[:, AF_SAVING] = model.saving * seconds
    instruction[:steps, I_KEY] = model.start_key
    costs = np.flatnonzero(model.row >= 0)
    for column, values in ((IF_CYCLES, model.base), (IF_LEAST, model.low), (IF_MOST, model.high)):
        instruction_f[costs, column] = values[model.row[costs]] * seconds
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


def _held_over(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the loop that holds the buffer of each access from its first instruction to its last.

    Returns:
      `[A]` the outermost loop around the access that only reads its buffer, or that writes it for its next iteration or
      for a later reader; -1 for none. `[A]` `CARRIED` if that loop writes it, else 0.
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
        # Read before it is written: the value comes from the previous iteration.
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
    """Fills the columns that link an access to the others of its buffer, and a buffer to its last accesses.

    Returns:
      `[N]` the first access to each buffer, -1 if there is none.
    """
    owners, step, held = (column.tolist() for column in (program.access_buffer, program.access_instruction, held_over))
    accesses, buffers = len(owners), program.num_buffers
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
        last[owner] = index
    ahead: list[float] = access_f[:, AF_BENEFIT].tolist()
    for index in range(accesses - 1, -1, -1):
        if following[index] >= 0:
            ahead[index] += ahead[following[index]]
    access[:, A_NEXT], access[:, A_TIED_TO], access_f[:, AF_AHEAD], buffer[:, B_LAST] = following, tied, ahead, last
    results = np.flatnonzero(program.access_kind == RESULT)
    buffer[program.access_buffer[results], B_LAST_RESULT] = results  # the last one stands
    return np.array(first, np.int64)


def _mark_read_later(
    program: Program, access: NDArray[np.int64], buffer: NDArray[np.int64], instruction: NDArray[np.int64]
) -> None:
    """Fills A_CARRIED of accesses in a loop that carries their buffer: is its last value read later, or an output?"""
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
    """Fills the columns of the prefetch for each access, and of the instruction until which its buffer is held."""
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
    """Returns the executions of the body of a loop; 1 outside all loops."""
    weight = 1.0
    while loop >= 0:
        weight *= float(program.loop_trips[loop])
        loop = int(program.loop_parent[loop])
    return weight


def _earliest_before(program: Program, earliest: NDArray[np.int64], loop: int) -> int:
    """Returns the earliest `start` of a copy that is due before a loop is entered."""
    first, parent = int(program.loop_first[loop]), int(program.loop_parent[loop])
    if parent >= 0 and program.loop_first[parent] == first:
        return first  # no instruction of the enclosing body runs before it
    if first > 0 and program.loop[first - 1] == parent:
        return int(earliest[first - 1])
    return first - 1
