"""Prices of fast memory: Lagrangian relaxation of the mapping problem, solved by subgradients.

The relaxation has two kinds of coupling constraints. At every instruction the stays fit in fast memory; their
multiplier is a price per byte. And an instruction saves no more than its HBM time exceeds its compute time, however
many of its accesses are fast; their multiplier is the share of its benefits that is void. Given the multipliers, each
buffer is a shortest path of its own: at every access it is in HBM, or in fast memory with a valid copy in HBM, or
without one. Offsets and the times of copies are left out; a copy costs a share of its seconds.

Subgradient ascent raises a price where the paths ask for more than there is. The mean of the paths over the iterations
approaches an optimal fractional solution (the volume algorithm; Barahona and Anbil 2000), which `rounding.py` rounds.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, routine
from ...env.compiled.struct import Struct, array, new_record, one, rows
from ...env.game.plan import placeable_accesses
from ...env.game.tables import Tables
from ...env.program.program import OPERAND

# Copies run beside other work most of the time.
COPY_SHARE = 0.3
_ITERATIONS = 50
# The steps of both kinds of multipliers fall as the root of the iterations, from these; of prices, in units of the
# price at which all of fast memory costs as much as all accesses could save.
_PRICE_STEP, _VOID_STEP = 1.0, 0.3
_FALL = 0.1
# The first third of the iterations is far from the optimum and does not count in the mean.
_UNCOUNTED = 3

# States of a path between two accesses: in HBM alone; in fast memory, with a valid copy in HBM; without one.
_OUT, _CLEAN, _DIRTY = range(3)
# Choices at an access: HBM; fast, a result written back, an operand held or prefetched; a result not written back; an
# operand evicted before and prefetched again.
_HBM, _FAST, _HELD, _AGAIN = range(4)

_SETTINGS = np.dtype([("copy_share", np.float64), ("unit", np.float64), ("iterations", np.int64)])


class Prices(NamedTuple):
    """A fractional solution and its multipliers. Shapes: `A` accesses, `T` instructions.

    Attributes:
      fast: `[A]` the share of paths in which an access is fast.
      written_back: `[A]` the share in which a result is fast and written back.
      price: `[T]` seconds per byte of fast memory at each instruction.
      void: `[T]` the share of an instruction's benefits that is void.
    """

    fast: NDArray[np.float64]
    written_back: NDArray[np.float64]
    price: NDArray[np.float64]
    void: NDArray[np.float64]


class _Paths(Struct):
    """The relaxation and the ascent. Shapes: `C` placeable accesses, `N` their buffers, `L` most accesses of a buffer.

    Attributes:
      chain: `[C]` placeable accesses by buffer, then by time.
      begin: `[N + 1]` the first place of each buffer in `chain`.
      buffer: `[N]`.
      copy_s: `[N]` seconds of a copy.
      free: `[T]` bytes of fast memory.
      most: `[T]` seconds that an instruction can save; 0 for no limit.
      fast, written_back: `[A]` sums over the counted paths.
      price, void: `[T]`.
      until: `[T + 1]` prices summed over the instructions before each one.
      held: `[T + 1]` changes of the bytes asked for.
      saved: `[T]` seconds asked for.
      value: `[L + 1, 3]` the best value from an access on, by state.
      choice: `[L, 3]` the choice that reaches it.
      settings: one record.
    """

    chain: NDArray[np.int64] = rows(np.int64)
    begin: NDArray[np.int64] = rows(np.int64)
    buffer: NDArray[np.int64] = rows(np.int64)
    copy_s: NDArray[np.float64] = rows(np.float64)
    free: NDArray[np.float64] = rows(np.float64)
    most: NDArray[np.float64] = rows(np.float64)
    fast: NDArray[np.float64] = rows(np.float64)
    written_back: NDArray[np.float64] = rows(np.float64)
    price: NDArray[np.float64] = rows(np.float64)
    void: NDArray[np.float64] = rows(np.float64)
    until: NDArray[np.float64] = rows(np.float64)
    held: NDArray[np.float64] = rows(np.float64)
    saved: NDArray[np.float64] = rows(np.float64)
    value: NDArray[np.float64] = array(np.float64, 2)
    choice: NDArray[np.int8] = array(np.int8, 2)
    settings: Any = one(_SETTINGS)


def find_prices(tables: Tables, free: NDArray[np.float64], copy_share: float = COPY_SHARE) -> Prices:
    """Returns a fractional solution.

    Args:
      tables: the program by a clock; stays of trivial buffers are left out.
      free: `[T]` bytes of fast memory.
      copy_share: seconds that a second of copying costs.
    """
    steps, accesses = len(free), len(tables.access)
    owner = tables.access["buffer"]
    placeable = np.flatnonzero(placeable_accesses(tables))
    chain = placeable[np.argsort(owner[placeable], kind="stable")]
    buffer, length = np.unique(owner[chain], return_counts=True)
    begin = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    benefits = np.maximum(tables.access["benefit"][placeable], 0.0).sum()
    longest = int(length.max(initial=0))
    # A copy runs as often as the first access of its buffer.
    entered = tables.instruction["entered"][tables.access["due"][chain[begin[:-1]]]]
    paths = _Paths(
        chain=chain,
        begin=begin,
        buffer=buffer.astype(np.int64),
        copy_s=tables.buffer["size"][buffer] / float(tables.rates.hbm) * entered,
        free=np.maximum(free, 1.0),
        most=_most_s(tables, steps),
        fast=np.zeros(accesses),
        written_back=np.zeros(accesses),
        price=np.zeros(steps),
        void=np.zeros(steps),
        until=np.zeros(steps + 1),
        held=np.zeros(steps + 2),
        saved=np.zeros(steps),
        value=np.zeros((longest + 1, 3)),
        choice=np.zeros((longest + 1, 3), np.int8),
        settings=new_record(
            _SETTINGS,
            copy_share=copy_share,
            unit=benefits / max(float(free.sum()), 1.0),
            iterations=_ITERATIONS,
        ),
    )
    _ascend(tables, paths)
    counted = _ITERATIONS - _ITERATIONS // _UNCOUNTED
    return Prices(paths.fast / counted, paths.written_back / counted, paths.price, paths.void)


def _most_s(tables: Tables, steps: int) -> NDArray[np.float64]:
    """Returns `[T]` the weighted seconds that an instruction saves with all its accesses fast, by the clock."""
    row, rates = tables.instruction[:steps], tables.rates
    in_hbm = np.maximum(row["compute_s"], row["bytes"] / float(rates.hbm))
    in_fast = np.maximum(row["compute_s"], row["bytes"] / float(rates.fast))
    seconds = float(rates.msa) * (in_hbm - in_fast)
    if rates.cycles > 0:
        seconds = seconds + float(rates.cycles) * np.maximum(row["cycles_s"] - row["least_s"], 0.0)
    return np.asarray(seconds * row["weight"])


@kernel(Tables, _Paths)
def _ascend(tables: Tables, paths: _Paths) -> None:
    settings = paths.settings
    steps = len(paths.free)
    for iteration in range(settings.iterations):
        counted = iteration >= settings.iterations // _UNCOUNTED
        paths.until[0] = 0.0
        for t in range(steps):
            paths.until[t + 1] = paths.until[t] + paths.price[t]
            paths.saved[t] = 0.0
            paths.held[t] = 0.0
        for n in range(len(paths.buffer)):
            _best_path(tables, paths, n)
            _follow_path(tables, paths, n, counted)
        fall = 1.0 / np.sqrt(1.0 + _FALL * iteration)
        asked = 0.0
        for t in range(steps):
            asked += paths.held[t]
            over = (asked - paths.free[t]) / paths.free[t]
            paths.price[t] = max(0.0, paths.price[t] + _PRICE_STEP * fall * settings.unit * over)
            if paths.most[t] > 0.0:
                over = (paths.saved[t] - paths.most[t]) / paths.most[t]
                paths.void[t] = min(1.0, max(0.0, paths.void[t] + _VOID_STEP * fall * over))


@routine
def _best_path(tables: Tables, paths: _Paths, n: int) -> None:
    """Fills `value` and `choice` for the accesses of buffer `n`, from the last to the first."""
    begin, count = paths.begin[n], paths.begin[n + 1] - paths.begin[n]
    owner = paths.buffer[n]
    size, copy_s = tables.buffer[owner].aligned, paths.copy_s[n] * paths.settings.copy_share
    value, choice, until = paths.value, paths.choice, paths.until
    value[count, _OUT] = 0.0
    value[count, _CLEAN] = 0.0
    value[count, _DIRTY] = -copy_s if tables.buffer[owner].is_output == 1 else 0.0
    for k in range(count - 1, -1, -1):
        access = paths.chain[begin + k]
        t = tables.access[access].instruction
        low, high = tables.access[access].due, tables.access[access].until + 1
        gain = tables.access[access].benefit * (1.0 - paths.void[t]) - size * (until[high] - until[low])
        if tables.access[access].kind != OPERAND:
            best, chosen = value[k + 1, _OUT], _HBM
            if gain - copy_s + value[k + 1, _CLEAN] > best:
                best, chosen = gain - copy_s + value[k + 1, _CLEAN], _FAST
            if gain + value[k + 1, _DIRTY] >= best and gain + value[k + 1, _DIRTY] > value[k + 1, _OUT]:
                best, chosen = gain + value[k + 1, _DIRTY], _HELD
            for state in range(3):
                value[k, state], choice[k, state] = best, chosen
            continue
        held = 0.0
        if k > 0:
            before = tables.access[paths.chain[begin + k - 1]].until + 1
            if low > before:
                held = size * (until[low] - until[before])
        out, fetched = value[k + 1, _OUT], gain - copy_s + value[k + 1, _CLEAN]
        stays = gain - held + value[k + 1, _CLEAN]
        value[k, _OUT], choice[k, _OUT] = (fetched, _FAST) if fetched > out else (out, _HBM)
        if stays >= out and stays >= fetched:
            value[k, _CLEAN], choice[k, _CLEAN] = stays, _FAST
        else:
            value[k, _CLEAN], choice[k, _CLEAN] = (fetched, _AGAIN) if fetched > out else (out, _HBM)
        value[k, _DIRTY], choice[k, _DIRTY] = gain - held + value[k + 1, _DIRTY], _FAST


@routine
def _follow_path(tables: Tables, paths: _Paths, n: int, counted: bool) -> None:
    """Adds what the best path of buffer `n` asks for to `held` and `saved`, and itself to the sums if it is counted."""
    begin, count = paths.begin[n], paths.begin[n + 1] - paths.begin[n]
    size = tables.buffer[paths.buffer[n]].aligned
    state = _OUT
    for k in range(count):
        access = paths.chain[begin + k]
        chosen = paths.choice[k, state]
        if chosen == _HBM:
            state = _OUT
            continue
        low = tables.access[access].due
        if tables.access[access].kind != OPERAND:
            state = _CLEAN if chosen == _FAST else _DIRTY
        elif state == _OUT or chosen == _AGAIN:
            state = _CLEAN
        else:
            low = min(low, tables.access[paths.chain[begin + k - 1]].until + 1)
        paths.held[low] += size
        paths.held[tables.access[access].until + 1] -= size
        paths.saved[tables.access[access].instruction] += tables.access[access].benefit
        if counted:
            paths.fast[access] += 1.0
            if tables.access[access].kind != OPERAND and chosen == _FAST:
                paths.written_back[access] += 1.0
