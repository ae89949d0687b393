"""Tests the completion of cycle tables, by leaving out pairs and mappings; finds placements that contradict order."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.physics.cycles import computation_share, fit_savings, fit_savings_by_time, instruction_cycles
from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program

from .study import NOTHING


class Row(NamedTuple):
    """A row of a cycle table, of `K` accesses and `P` pairs.

    Attributes:
      weight: number of executions.
      moved: `[K]` bytes.
      placements: `[P, K]` the fast accesses of each pair.
      cycles: `[P]`.
      hbm_cycles: `[K]` cycles that the bytes take in HBM.
      computed: the least cycles of the computation, as `computation_share` has it.
    """

    weight: float
    moved: NDArray[np.float64]
    placements: NDArray[np.bool_]
    cycles: NDArray[np.float64]
    hbm_cycles: NDArray[np.float64]
    computed: float

    def only(self, kept: NDArray[np.bool_]) -> "Row":
        """Returns the row with the pairs `kept` alone."""
        return self._replace(placements=self.placements[kept], cycles=self.cycles[kept])


def rows_of(program: Program) -> Iterator[Row]:
    """Yields the rows of a program's cycle table."""
    table = program.cycles
    assert table is not None
    clock = program.target.clock_hz
    share = computation_share(program, table)
    starts = program.access_start
    for row in range(table.num_rows):
        members = np.flatnonzero(table.row == row)
        if not members.size:
            continue
        begin, end = starts[members[0]], starts[members[0] + 1]
        first, last = table.row_start[row], table.row_start[row + 1]
        masks = table.pair_fast[first:last]
        placements = np.array([[mask >> k & 1 for k in range(end - begin)] for mask in masks], bool)
        yield Row(
            float(program.weight[members].sum()),
            program.access_bytes[begin:end],
            placements.reshape(len(masks), end - begin),
            table.pair_cycles[first:last].astype(np.float64),
            program.access_bytes[begin:end] / program.target.hbm_bandwidth * clock,
            float(program.compute_s[members[0]]) * clock * share,
        )


def _by_time(row: Row, asked: NDArray[np.bool_]) -> float:
    base, saving = fit_savings_by_time(row.hbm_cycles, row.placements, row.cycles)
    return max(base - float(saving[asked].sum()), min(row.computed, float(row.cycles.min())))


def _within_seen(row: Row, asked: NDArray[np.bool_]) -> float:
    base, saving = fit_savings(row.moved, row.placements, row.cycles)
    return float(np.clip(base - float(saving[asked].sum()), row.cycles.min(), row.cycles.max()))


def _nearest(row: Row, asked: NDArray[np.bool_]) -> float:
    return float(row.cycles[np.argmin((row.placements ^ asked) @ (row.moved + 1e-9 * row.moved.max(initial=1.0)))])


COMPLETIONS: dict[str, Callable[[Row, NDArray[np.bool_]], float]] = {
    "additive savings, by the time of bytes in HBM (new captures)": _by_time,
    "additive savings, by bytes, within the range seen (these programs)": _within_seen,
    "nearest placement seen, by bytes": _nearest,
    "mean of the row": lambda row, asked: float(row.cycles.mean()),
    "the row's dearest": lambda row, asked: float(row.cycles.max()),
}
# Accesses of fewer bytes are not hidden: placements hardly depend on them.
_LARGE = 2**20


def cross_validate(programs: Sequence[Program]) -> dict[str, NDArray[np.float64]]:
    """Leaves out every pair in turn, except those with nothing fast, which every table has.

    Rows of fewer than three pairs are skipped: a single pair would be left to estimate from.

    Returns:
      By completion `[n, 2]`: true cycles and estimate, weighted by the executions of the row.
    """
    return _estimates(
        (row, left, np.arange(len(row.cycles)) != left)
        for program in programs
        for row in rows_of(program)
        if len(row.cycles) >= 3
        for left in np.flatnonzero(row.placements.any(axis=1)).tolist()
    )


def never_fast(programs: Sequence[Program]) -> dict[str, NDArray[np.float64]]:
    """Leaves out, for every pair and every large access that is fast in it, all pairs in which that access is fast.

    Returns:
      As `cross_validate`.
    """
    return _estimates(
        (row, pair, ~row.placements[:, access])
        for program in programs
        for row in rows_of(program)
        for pair in range(len(row.cycles))
        for access in np.flatnonzero(row.placements[pair] & (row.moved > _LARGE)).tolist()
    )


def _estimates(cases: Iterable[tuple[Row, int, NDArray[np.bool_]]]) -> dict[str, NDArray[np.float64]]:
    """Estimates, case by case, one pair of a row from others of it."""
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row, asked, kept in cases:
        if kept.any():
            known = row.only(kept)
            for name, complete in COMPLETIONS.items():
                estimate = complete(known, row.placements[asked])
                points[name].append((row.weight * row.cycles[asked], row.weight * estimate))
    return {name: np.array(values) for name, values in points.items()}


def leave_mappings_out(programs: Sequence[Program], completion: str) -> list[tuple[str, float, float]]:
    """Leaves out, for every kept mapping of the flag grid, all pairs that production does not have.

    Args:
      programs: with cycle tables.
      completion: of `CycleTable`.

    Returns:
      Of each mapping: the program, the share of its cycles that is completed, and the relative error of their sum.
    """
    results = []
    for program in programs:
        table, production = program.cycles, program.production
        assert table is not None
        assert production is not None
        kept = pairs_of(program, production)
        for variant in program.variants:
            if variant.mapping is None:
                continue
            new = pairs_of(program, variant.mapping) - kept
            pairs = zip(zip(table.pair_row.tolist(), table.pair_fast, strict=True), table.pair_cycles, strict=True)
            rest = {pair: int(cycles) for pair, cycles in pairs if pair not in new}
            less = build_table(table.row, rest, completion=completion)
            fast, replaced = variant.mapping.access_fast, variant.mapping.copies[:, 7]
            runs = program.weight.copy()
            runs[replaced[replaced >= 0]] = 0.0
            true = instruction_cycles(program, fast)[0] @ runs
            guess, seen = instruction_cycles(dataclasses.replace(program, cycles=less), fast)
            results.append(
                (program.name, 1 - float((guess * seen) @ runs / (guess @ runs)), float(guess @ runs / true - 1))
            )
    return results


def pairs_of(program: Program, mapping: Mapping) -> set[tuple[int, int]]:
    """Returns the pairs of row and placement that a mapping needs."""
    table, starts = program.cycles, program.access_start
    assert table is not None
    pairs = set()
    for t, row in enumerate(table.row.tolist()):
        fast = np.flatnonzero(mapping.access_fast[starts[t] : starts[t + 1]])
        pairs.add((row, sum(1 << int(k) for k in fast)))
    return pairs


def upside_down(programs: Sequence[Program]) -> tuple[int, int, float, str]:
    """Compares placements of which one keeps in fast memory all that the other does and more.

    Returns:
      the comparisons in which more fast memory is slower, all comparisons, the largest ratio, and its instruction.
    """
    slower = compared = 0
    worst, where = 1.0, ""
    for program in programs:
        table = program.cycles
        assert table is not None
        for row in range(table.num_rows):
            first, last = table.row_start[row], table.row_start[row + 1]
            for i in range(first, last):
                for j in range(first, last):
                    less, more = table.pair_fast[i], table.pair_fast[j]
                    if less != more and less & more == less:
                        compared += 1
                        ratio = table.pair_cycles[j] / max(table.pair_cycles[i], 1)
                        slower += ratio > 1 + NOTHING
                        if ratio > worst:
                            t = int(np.flatnonzero(table.row == row)[0])
                            worst, where = float(ratio), f"`{program.instruction_names[t]}` of {program.name}"
    return slower, compared, worst, where
