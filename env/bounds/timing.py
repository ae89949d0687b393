"""Adds the columns and rows of a relaxation that price a program: run times, idle HBM time, waits."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..physics.cost import CYCLES, all_hbm_latency, cycle_s, instruction_times
from ..physics.cycles import cycle_model, least_cycles
from ..program.program import Program
from ..program.target import Target
from .deadline import NO_DEADLINE, Deadline
from .linear_program import Expression, LinearProgram
from .placement import Placement
from .slot_tree import SlotTree
from .touches import may_be_fast, replaceable, wait_weights

# The cycles of an instruction can be any function of its fast accesses. This many accesses, the ones that matter most,
# get a column for each of their placements; for the others the best case counts.
MOST_EXACT = 4


def add_time(
    program: Program,
    target: Target,
    linear: LinearProgram,
    placement: Placement,
    tree: SlotTree,
    unit_s: float,
    model: str,
    deadline: Deadline = NO_DEADLINE,
) -> Expression:
    """Adds run times, waits and the bandwidth that copies share; returns the latency in units of time.

    Args:
      program: the program.
      target: the hardware.
      linear: takes the columns and rows.
      placement: the columns that place the buffers.
      tree: the time that copies demand under this cost model.
      unit_s: the unit of time in seconds.
      model: `msa` or `cycles`.
      deadline: time limit.

    Raises:
      TimeIsUp: the limit has passed.
    """
    # No time is longer than the whole program with everything in HBM: longer ones are no optimum.
    most = all_hbm_latency(program, target, model) / unit_s
    weights = program.weight
    if weights.size and weights.min() < 1.0:  # loops without trips: their instructions take no time
        most *= 1e6
    cost = _Cycles(program, target, linear, placement, unit_s) if model == CYCLES else None
    msa = _Msa(program, target, linear, placement, unit_s, most)
    latency, supply = Expression(), {}
    for t, weight in enumerate(weights.tolist()):
        deadline.check()
        run, idle = cost.instruction(t) if cost is not None else msa.instruction(t)
        supply[2 * t + 1] = idle
        latency.include(run, weight)
    for t, weight in enumerate(wait_weights(program).tolist()):
        supply[2 * t] = Expression.of(linear.column(0.0, most))
        latency.include(supply[2 * t], weight)
    tree.constrain(linear, supply, most)
    return latency


class _Msa:
    """Run times `max(compute, memory)`: convex in the bytes from fast memory, so that two rows are exact."""

    def __init__(
        self,
        program: Program,
        target: Target,
        linear: LinearProgram,
        placement: Placement,
        unit_s: float,
        most: float,
    ) -> None:
        self._program, self._linear, self._placement, self._most = program, linear, placement, most
        self._hbm_s = 1.0 / (target.hbm_bandwidth * unit_s)  # per byte
        self._fast_s = 1.0 / (target.fast_bandwidth * unit_s)
        self._compute = program.compute_s / unit_s
        self._allowed = program.access_allowed

    def instruction(self, t: int) -> tuple[Expression, Expression]:
        """Returns run time and idle HBM time of an instruction. The columns may exceed both, as a wait would."""
        program, linear = self._program, self._linear
        total, compute = float(program.bytes_total[t]), float(self._compute[t])
        fast = Expression()
        for access in range(program.access_start[t], program.access_start[t + 1]):
            buffer, moved = int(program.access_buffer[access]), float(program.access_bytes[access])
            if buffer in self._placement.left_out:
                fast.constant += moved
            elif (t, buffer) in self._placement.fast and self._allowed[access]:
                fast.include(Expression.of(self._placement.fast[t, buffer]), moved)
        most_bytes = fast.constant + sum(fast.terms.values())
        if most_bytes > total:  # the accesses move more than the instruction: no more than all of it counts
            if fast.terms and total > 0:
                limited = Expression.of(linear.column(), total)
                linear.at_least(fast.add(limited, -1.0).scaled(1.0 / total))
                fast = limited
            else:
                fast = Expression(min(fast.constant, total))
            most_bytes = total
        replaced = self._placement.replaced.get(t)
        here = Expression(1.0) if replaced is None else Expression(1.0, {replaced: -1.0})
        hbm = here.scaled(total).add(fast, -1.0).scaled(self._hbm_s)
        memory = hbm.add(fast, self._fast_s)
        if not fast.terms and replaced is None:
            run = Expression(max(compute, memory.constant))
        else:
            least = max(compute, (total - most_bytes) * self._hbm_s + most_bytes * self._fast_s)
            run = Expression.of(linear.column(0.0 if replaced is not None else least, self._most))
            linear.at_least(run.add(memory, -1.0))
            if replaced is not None:
                linear.at_least(run.add(here, -compute))
        return run, run.add(hbm, -1.0)


@dataclass(frozen=True)
class _Case:
    """Least run time and most idle HBM time of all placements that agree in the accesses with columns."""

    run: float
    idle: float


class _Cycles:
    """Run times from the cycle table: exact in the major accesses, best case over the minor ones."""

    def __init__(
        self, program: Program, target: Target, linear: LinearProgram, placement: Placement, unit_s: float
    ) -> None:
        assert program.cycles is not None
        self._program, self._linear, self._placement = program, linear, placement
        self._table, self._model = program.cycles, cycle_model(program)
        self._possible = may_be_fast(program, target)
        self._unit = cycle_s(program, target) / unit_s  # per cycle
        self._hbm = 1.0 / (target.hbm_bandwidth * unit_s)  # per byte

    def instruction(self, t: int) -> tuple[Expression, Expression]:
        """Returns run time and idle HBM time of an instruction: the convex hull of its cases."""
        if self._model.row[t] < 0:
            return Expression(), Expression()
        linear = self._linear
        first, last = int(self._program.access_start[t]), int(self._program.access_start[t + 1])
        major = self._major(t, first, last)
        columns = [self._placement.fast[t, int(self._program.access_buffer[a])] for a in major]
        replaced = self._placement.replaced.get(t)
        cases = [
            (bits, self._case(t, first, last, dict(zip(major, bits, strict=True))))
            for bits in product((0, 1), repeat=len(major))
        ]
        if len(cases) == 1 and replaced is None:
            return Expression(cases[0][1].run), Expression(cases[0][1].idle)
        run, idle, chosen = Expression(), Expression(), Expression()
        served = [Expression() for _ in major]
        for bits, case in cases:
            weight = linear.column()
            chosen.terms[weight] = 1.0
            run.terms[weight], idle.terms[weight] = case.run, case.idle
            for share, bit in zip(served, bits, strict=True):
                if bit:
                    share.terms[weight] = 1.0
        if replaced is not None:
            chosen.terms[replaced] = 1.0
        linear.row(chosen, 1.0, 1.0)
        for share, column in zip(served, columns, strict=True):
            linear.row(share.add(Expression.of(column), -1.0), 0.0, 0.0)
        return run, idle

    def _major(self, t: int, first: int, last: int) -> list[int]:
        """Returns the accesses that get columns: the ones that save most, of those to a buffer accessed once."""
        buffers = self._program.access_buffer[first:last].tolist()
        able = [
            access
            for access, buffer in enumerate(buffers, first)
            if (t, buffer) in self._placement.fast and buffers.count(buffer) == 1
        ]
        hbm_cycles = self._hbm / self._unit
        matters = {a: abs(self._model.saving[a]) + 0.1 * hbm_cycles * self._program.access_bytes[a] for a in able}
        return sorted(sorted(able, key=lambda a: -matters[a])[:MOST_EXACT])

    def _case(self, t: int, first: int, last: int, bits: dict[int, int]) -> _Case:
        """Bounds run time and idle time over every placement that has `bits` at the major accesses."""
        model, row = self._model, int(self._model.row[t])
        low, high = float(model.low[row]), float(model.high[row])
        saved_most = saved_least = bytes_most = 0.0
        for access in range(first, last):
            saving, moved = float(model.saving[access]), float(self._program.access_bytes[access])
            if access in bits:
                saved_most += saving * bits[access]
                saved_least += saving * bits[access]
                bytes_most += moved * bits[access]
            elif self._possible[self._program.access_buffer[access]]:
                saved_most += max(saving, 0.0)
                saved_least += min(saving, 0.0)
                bytes_most += moved
        least = min(max(float(model.base[row]) - saved_most, low), high)
        most = min(max(float(model.base[row]) - saved_least, low), high)
        for cycles in self._seen(row, first, last, bits):
            least, most = min(least, cycles), max(most, cycles)
        total = float(self._program.bytes_total[t])
        hbm = (total - min(bytes_most, total)) * self._hbm
        return _Case(least * self._unit, max(0.0, most * self._unit - hbm))

    def _seen(self, row: int, first: int, last: int, bits: dict[int, int]) -> Iterator[float]:
        """Yields the cycles of the pairs seen that agree with `bits`."""
        wanted = sum(1 << (access - first) for access, bit in bits.items() if bit)
        mask = sum(1 << (access - first) for access in bits)
        buffers = self._program.access_buffer[first:last]
        mask |= sum(1 << k for k, buffer in enumerate(buffers) if not self._possible[buffer])
        for pair in range(self._table.row_start[row], self._table.row_start[row + 1]):
            if self._table.pair_fast[pair] & mask == wanted:
                yield float(self._table.pair_cycles[pair])


def least_latency(program: Program, target: Target, model: str, runs: NDArray[np.bool_]) -> float:
    """Returns the least seconds of the instructions that run (`runs`, `[T]`), over all placements, with free copies."""
    if model == CYCLES:
        run_s = least_cycles(program) * cycle_s(program, target)
    else:
        run_s, _ = instruction_times(program, target, program.access_allowed, model)
    return float((run_s * runs) @ program.weight)


def worth_by_buffer(program: Program, target: Target, model: str) -> NDArray[np.float64]:
    """Returns `[N]` the seconds that a cost model can save at each buffer, if all its accesses are fast."""
    if model == CYCLES:
        worth = np.abs(cycle_model(program).saving) * cycle_s(program, target)
    else:
        worth = program.access_bytes * (1.0 / target.hbm_bandwidth - 1.0 / target.fast_bandwidth)
    worth = worth * program.weight[program.access_instruction]
    by_buffer = np.bincount(program.access_buffer, weights=worth, minlength=program.num_buffers)
    run_s, _ = instruction_times(program, target, np.zeros(program.num_accesses, bool), model)
    for t, (_, result) in replaceable(program).items():
        by_buffer[result] += run_s[t] * program.weight[t]  # a left-out result would let a copy replace it at no cost
    return np.asarray(by_buffer, np.float64)


def minor_buffers(program: Program, target: Target, model: str, share: float) -> frozenset[int]:
    """Returns buffers that can be left out of a relaxation, since fast memory saves little at them.

    Args:
      program: the program.
      target: the hardware.
      model: name of the cost model.
      share: most that all of them may save together, as a share of the all-in-HBM latency.
    """
    worth, whole_s = worth_by_buffer(program, target, model), all_hbm_latency(program, target, model)
    return least_worth(program, target, worth, share * whole_s)


def least_worth(program: Program, target: Target, worth: NDArray[np.float64], most_s: float) -> frozenset[int]:
    """Returns the buffers of least `worth[N]` that may be fast and together save at most `most_s` seconds."""
    order = np.argsort(worth, kind="stable")
    few = order[np.cumsum(worth[order]) <= most_s]
    possible = may_be_fast(program, target)
    return frozenset(few[possible[few]].tolist())
