"""Completion of the cycle tables, tested: pairs and whole mappings left out, and placements that contradict order."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.physics.cycles import fit_savings, instruction_cycles
from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program

from .study import NOTHING


def rows_of(program: Program) -> Iterator[tuple[float, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]]:
    """Yields rows of the cycle table: number of executions, `[K]` bytes moved, `[P, K]` placements, `[P]` cycles."""
    table = program.cycles
    assert table is not None
    starts = program.access_start
    for row in range(table.num_rows):
        members = np.flatnonzero(table.row == row)
        if not members.size:
            continue
        begin, end = starts[members[0]], starts[members[0] + 1]
        first, last = table.row_start[row], table.row_start[row + 1]
        masks = table.pair_fast[first:last]
        placements = np.array([[mask >> k & 1 for k in range(end - begin)] for mask in masks], bool)
        yield (
            float(program.weight[members].sum()),
            program.access_bytes[begin:end],
            placements.reshape(len(masks), end - begin),
            table.pair_cycles[first:last].astype(np.float64),
        )


Completion = Callable[[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]], float]


def _additive(moved: NDArray[Any], placements: NDArray[Any], cycles: NDArray[Any], asked: NDArray[Any]) -> float:
    base, saving = fit_savings(moved, placements, cycles)
    return base - float(saving[asked].sum())


def _nearest(moved: NDArray[Any], placements: NDArray[Any], cycles: NDArray[Any], asked: NDArray[Any]) -> float:
    return float(cycles[np.argmin((placements ^ asked) @ (moved + 1e-9 * moved.max(initial=1.0)))])


COMPLETIONS: dict[str, Completion] = {
    "additive savings, by bytes (chosen)": _additive,
    "nearest placement seen, by bytes": _nearest,
    "mean of the row": lambda moved, placements, cycles, asked: float(cycles.mean()),
    "the row's dearest": lambda moved, placements, cycles, asked: float(cycles.max()),
}


def cross_validate(programs: Sequence[Program]) -> dict[str, NDArray[np.float64]]:
    """Leaves out every pair in turn, except those with nothing fast, which every table has.

    Rows of fewer than three pairs are skipped: a single pair would be left to estimate from.

    Returns:
      By completion `[n, 2]`: true cycles and estimate, weighted by the executions of the row.
    """
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for program in programs:
        for weight, moved, placements, cycles in rows_of(program):
            if len(cycles) < 3:
                continue
            for left in np.flatnonzero(placements.any(axis=1)):
                rest = np.arange(len(cycles)) != left
                low, high = cycles[rest].min(), cycles[rest].max()
                for name, complete in COMPLETIONS.items():
                    estimate = complete(moved, placements[rest], cycles[rest], placements[left])
                    points[name].append((weight * cycles[left], weight * float(np.clip(estimate, low, high))))
    return {name: np.array(values) for name, values in points.items()}


def leave_mappings_out(programs: Sequence[Program]) -> list[tuple[str, float, float]]:
    """Leaves out, for every kept mapping of the flag grid, all pairs that production does not have.

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
            less = build_table(table.row, {pair: int(cycles) for pair, cycles in pairs if pair not in new})
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
