"""The `cycles` cost model: the code generator's cycles, looked up where the compiler has shown them, else completed.

A seen pair (instruction, set of fast accesses) is looked up by a key, the XOR of one random number per fast access
(Zobrist hashing), which a game updates access by access. An unseen pair is *completed*: the cycles with nothing fast
less one saving per fast access. There are two ways (`CycleTable.completion`). By time, a saving is the time that the
bytes of the access take in HBM, and the result is no less than the computation. Within seen, as for files of earlier
captures, an access saves the same share of the cycles as it has of the bytes, and the result is clipped to the range
seen for the instruction. Savings are corrected by as little as explains the pairs seen. Their errors, and the
alternatives: docs/decisions/0006-cycles-and-robust.md and 0058-cycles-never-seen.md.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..program.cycle_table import BY_TIME, CycleTable
from ..program.program import Program

# Variance that additive savings cannot explain, relative to the variance that they can.
_NOISE = 1e-3
# Computations of fewer cycles do not show how the compiler's two models compare.
_SHORT = 2000.0
_QUARTER = 0.25
# Variance of the cycles with nothing fast, relative to that of the largest saving: whatever the pairs say.
_FREE_BASE = 10.0


@dataclass(frozen=True, eq=False)
class CycleModel:
    """A cycle table for look-up. Shapes: `T` instructions, `A` accesses, `R` rows, `P` pairs.

    Attributes:
      row: `[T]` the row of each instruction, -1 if it costs nothing.
      start_key: `[T]` the key of each instruction with nothing fast.
      access_key: `[A]` the change of that key by a fast access, by XOR.
      keys: `[P]` keys of the pairs seen, ascending.
      cycles: `[P]` their cycles.
      base: `[R]` cycles with nothing fast.
      saving: `[A]` cycles that the completion saves for each fast access; may be negative.
      low, high: `[R]` least and most cycles that a completion may give.
      known: `[R]` the rows whose completion is exact.
    """

    row: NDArray[np.int32]
    start_key: NDArray[np.int64]
    access_key: NDArray[np.int64]
    keys: NDArray[np.int64]
    cycles: NDArray[np.float64]
    base: NDArray[np.float64]
    saving: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    known: NDArray[np.bool_]

    def ask(
        self, row: NDArray[np.int32], keys: NDArray[np.int64], saved: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Returns cycles, and whether each is exact; arguments and results have one shape.

        Args:
          row: rows, -1 for an instruction that costs nothing.
          keys: the start keys, with the keys of the fast accesses.
          saved: savings of the fast accesses, summed.
        """
        costs = row >= 0
        if not len(self.keys):
            return np.zeros(row.shape), ~costs
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        seen = self.keys[place] == keys
        completed = np.clip(self.base[row] - saved, self.low[row], self.high[row])
        return np.where(costs, np.where(seen, self.cycles[place], completed), 0.0), seen | ~costs | self.known[row]


_models: "WeakKeyDictionary[Program, CycleModel]" = WeakKeyDictionary()


def cycle_model(program: Program) -> CycleModel:
    """Returns the cycle model of a program, built once.

    Raises:
      UserError: the program has no cycle table.
    """
    if program.cycles is None:
        raise UserError(
            f"program {program.name!r} has no cycle table, so the cost model `cycles` cannot price it; capture it "
            "again with --variants, or take the cost model or objective `msa`"
        )
    if program not in _models:
        _models[program] = _build(program, program.cycles)
    return _models[program]


def instruction_cycles(
    program: Program, access_fast: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns `[T]` cycles of one execution of each instruction, and `[T]` whether that pair was seen.

    Args:
      program: the program.
      access_fast: `[A]` accesses served from fast memory.

    Raises:
      UserError: the program has no cycle table.
    """
    model = cycle_model(program)
    return model.ask(model.row, *_keys(program, model, access_fast))


def marginal_cycles(program: Program) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the cycles that each access saves: `[A]` as the only fast one, and `[A]` with all others fast that may
    be.

    Raises:
      UserError: the program has no cycle table.
    """
    model = cycle_model(program)
    at = program.access_instruction
    row = model.row[at]

    def toggled(access_fast: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Returns `[A]` cycles of the instruction of each access when that access alone differs from `access_fast`."""
        keys, saved = _keys(program, model, access_fast)
        change = np.where(access_fast, -model.saving, model.saving)
        return model.ask(row, keys[at] ^ model.access_key, saved[at] + change)[0]

    nothing = np.zeros(program.num_accesses, bool)
    alone = instruction_cycles(program, nothing)[0][at] - toggled(nothing)
    fast = program.access_allowed
    with_all = instruction_cycles(program, fast)[0][at]
    last = np.where(fast, toggled(fast) - with_all, with_all - toggled(fast))
    return alone, last


def _keys(
    program: Program, model: CycleModel, access_fast: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns `[T]` keys and `[T]` summed savings of a placement."""
    fast = np.flatnonzero(access_fast)
    at = program.access_instruction[fast]
    keys = model.start_key.copy()
    np.bitwise_xor.at(keys, at, model.access_key[fast])
    saved = np.zeros(program.num_instructions)
    np.add.at(saved, at, model.saving[fast])
    return keys, saved


def least_cycles(program: Program) -> NDArray[np.float64]:
    """Returns `[T]` a lower bound on cycles: the least seen, or fewer where a completion may give fewer."""
    model = cycle_model(program)
    least = np.zeros(program.num_instructions)
    costs = model.row >= 0
    least[costs] = model.low[model.row[costs]]
    return least


def exact_share(program: Program, access_fast: NDArray[np.bool_], skipped: NDArray[np.int64] | None = None) -> float:
    """Returns the share of a placement's cycles that comes from seen pairs, loop trips counted.

    Args:
      program: the program.
      access_fast: `[A]` accesses served from fast memory.
      skipped: instructions that do not run.

    Raises:
      UserError: the program has no cycle table.
    """
    cycles, seen = instruction_cycles(program, access_fast)
    if skipped is not None:
        cycles[skipped] = 0.0
    total = float(cycles @ program.weight)
    return float((cycles * seen) @ program.weight) / total if total > 0 else 1.0


def fit_savings(
    moved: NDArray[np.float64], placements: NDArray[np.bool_], cycles: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Completes one row: cycles with nothing fast, and the saving of each access.

    The prior saving of an access is its share of the bytes. Of all corrections that explain the pairs, the smallest
    relative to the bytes moved is taken (kriging with a linear kernel): a pair with several fast accesses shares its
    saving among them by their bytes.

    Args:
      moved: `[K]` bytes of each access.
      placements: `[P, K]` the fast accesses of each pair.
      cycles: `[P]` the cycles of each pair; at least one.

    Returns:
      The base and `[K]` savings, in cycles.
    """
    nothing = ~placements.any(axis=1)
    base = float(cycles[nothing][0]) if nothing.any() else float(cycles.max())
    saved = base - cycles[~nothing]
    fast = placements[~nothing].astype(np.float64)
    prior = moved / moved.max(initial=1.0) + 1e-6
    if not saved.size or not np.abs(saved).max() > 0:
        return base, np.zeros(len(moved))
    expected = base * moved / moved.sum() if moved.sum() > 0 else np.zeros(len(moved))
    gram = (fast * prior) @ fast.T
    noise = _NOISE * float(np.trace(gram)) / len(saved)
    correction = np.linalg.solve(gram + noise * np.eye(len(saved)), saved - fast @ expected)
    return base, expected + prior * (fast.T @ correction)


def fit_savings_by_time(
    hbm_cycles: NDArray[np.float64], placements: NDArray[np.bool_], cycles: NDArray[np.float64]
) -> tuple[float, NDArray[np.float64]]:
    """Completes one row, where an access is expected to save the time that its bytes take from or to HBM.

    Corrections are the smallest that explain the pairs, as in `fit_savings`. Nothing is expected of the base.

    Args:
      hbm_cycles: `[K]` cycles that the bytes of each access take in HBM.
      placements: `[P, K]` the fast accesses of each pair.
      cycles: `[P]` the cycles of each pair; at least one.

    Returns:
      The base and `[K]` savings, in cycles.
    """
    fast = placements.astype(np.float64)
    prior = hbm_cycles / max(float(hbm_cycles.max(initial=0.0)), 1e-9) + 1e-6
    bases = cycles + fast @ hbm_cycles
    shared = (fast * prior) @ fast.T
    noise = _NOISE * (float(np.trace(shared)) / len(cycles) + 1.0)
    gram = shared + _FREE_BASE + noise * np.eye(len(cycles))
    correction = np.linalg.solve(gram, bases - bases.mean())
    return float(bases.mean() + _FREE_BASE * correction.sum()), hbm_cycles - prior * (fast.T @ correction)


def kernel_completion(program: Program, t: int) -> tuple[float, NDArray[np.float64], float, float]:
    """Returns what completes the row of a kernel exactly: the seconds of memory space assignment, in cycles.

    Args:
      program: the program; its target's clock is known.
      t: the kernel's instruction, with `K` accesses.

    Returns:
      The cycles with nothing fast, `[K]` the saving of each access, and the least and most cycles of any placement: the
      base less savings is clipped to these.
    """
    target, clock = program.target, program.target.clock_hz
    total, computation = float(program.bytes_total[t]), max(float(program.compute_s[t]) * clock, 1.0)
    slow, fast = clock / target.hbm_bandwidth, clock / target.fast_bandwidth
    moved = program.access_bytes[program.access_start[t] : program.access_start[t + 1]]
    return total * slow, moved * (slow - fast), max(computation, total * fast), max(computation, total * slow)


def computation_share(program: Program, table: CycleTable) -> float:
    """Returns the computation of the code generator as a share of `msa`'s; at most 1.

    It is 1 for v5e and v4, a third for v6e, as read from the rows that are bound by computation: the quarter with the
    fewest cycles.
    """
    clock, at = program.target.clock_hz, np.flatnonzero(table.row >= 0)
    computed = program.compute_s[at] * clock
    moved = program.bytes_total[at] / program.target.hbm_bandwidth * clock
    bound = (computed > _SHORT) & (computed > moved / 2)
    if not bound.any():
        return 1.0
    least = np.minimum.reduceat(table.pair_cycles, table.row_start[:-1])[table.row[at[bound]]]
    share, weight = least / computed[bound], computed[bound] * program.weight[at[bound]]
    order = np.argsort(share, kind="stable")
    reached = np.searchsorted(np.cumsum(weight[order]), _QUARTER * weight.sum())
    return min(1.0, float(share[order[min(reached, len(order) - 1)]]))


def _build(program: Program, table: CycleTable) -> CycleModel:
    starts, rows = program.access_start, table.num_rows
    access_key = _mix(np.arange(program.num_accesses) - starts[program.access_instruction])
    row_key = _mix(np.arange(rows) + 2**32)
    costs = table.row >= 0
    start_key = np.zeros(program.num_instructions, np.uint64)
    start_key[costs] = row_key[table.row[costs]]

    base, low, high = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    known = np.zeros(rows, bool)
    known[list(table.kernel_rows)] = True
    clock = program.target.clock_hz
    shortest = computation_share(program, table) if table.completion == BY_TIME else 1.0
    saving = np.zeros(program.num_accesses)
    keys: list[np.uint64] = []
    values: list[np.float64] = []
    members: dict[int, list[int]] = {}
    for t in np.flatnonzero(costs).tolist():
        members.setdefault(int(table.row[t]), []).append(t)
    for row, instructions in members.items():
        first, last = table.row_start[row], table.row_start[row + 1]
        begin, end = starts[instructions[0]], starts[instructions[0] + 1]
        masks = table.pair_fast[first:last]
        placements = np.array([[mask >> k & 1 for k in range(end - begin)] for mask in masks], bool)
        placements = placements.reshape(len(masks), end - begin)
        cycles = table.pair_cycles[first:last].astype(np.float64)
        keys += [np.bitwise_xor.reduce(access_key[begin:end][fast], initial=row_key[row]) for fast in placements]
        values += list(cycles)
        low[row], high[row] = cycles.min(), cycles.max()
        moved = program.access_bytes[begin:end]
        if known[row]:
            base[row], savings, least, most = kernel_completion(program, instructions[0])
            low[row], high[row] = min(low[row], least), max(high[row], most)  # pairs are rounded
        elif table.completion == BY_TIME:
            base[row], savings = fit_savings_by_time(moved / program.target.hbm_bandwidth * clock, placements, cycles)
            low[row] = min(low[row], float(program.compute_s[instructions[0]]) * clock * shortest)
            high[row] = max(high[row], base[row] - float(np.minimum(savings, 0.0).sum()))
        else:
            base[row], savings = fit_savings(moved, placements, cycles)
        for t in instructions:
            saving[starts[t] : starts[t + 1]] = savings
    signed = np.array(keys, np.uint64).view(np.int64)
    order = np.argsort(signed)
    sorted_keys = signed[order]
    if np.any(sorted_keys[1:] == sorted_keys[:-1]):
        raise AssertionError("two pairs of a cycle table have one key")
    return CycleModel(
        row=table.row,
        start_key=start_key.view(np.int64),
        access_key=access_key.view(np.int64),
        keys=sorted_keys,
        cycles=np.array(values, np.float64)[order],
        base=base,
        saving=saving,
        low=low,
        high=high,
        known=known,
    )


def _mix(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Returns a 64-bit hash of each value (SplitMix64: Steele, Lea and Flood 2014)."""
    with np.errstate(over="ignore"):
        mixed = (values.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
