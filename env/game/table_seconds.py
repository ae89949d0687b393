"""Seconds in the tables: run times, what each access saves, and the cycle table as a hash table."""

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows
from ..physics.cost import CYCLES, MSA, cycle_s, instruction_times
from ..physics.cycles import cycle_model, marginal_cycles
from ..physics.objective import Clock
from ..program.program import Program
from ..program.target import Target


def run_s(program: Program, target: Target, clock: Clock, access_fast: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns `[T]` the run times of instructions in seconds of the clock."""
    weights = ((MSA, clock.msa), (CYCLES, clock.cycles))
    run_s = np.zeros(program.num_instructions)
    for model, weight in weights:
        if weight > 0:
            run_s += weight * instruction_times(program, target, access_fast, model)[0]
    return run_s


def benefits(program: Program, target: Target, clock: Clock) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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


def add_cycles(
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
