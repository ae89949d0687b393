"""Writes the tables of docs/results/long-programs.md from docs/results/long_programs.jsonl.

python -m benchmarks.long_programs.page
"""

import argparse
from collections.abc import Sequence
from math import log

import numpy as np

from mallocmuzero.env.storage.atomic import write_atomically

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from .figures import BOUND_S, FIGURES
from .measure import ACCESSES, RESULTS, WORKLOAD, key_of

PAGE = ROOT / "docs" / "results" / "long-programs.md"
MAKER = "benchmarks/long_programs/page.py"
BOUND = "a bound"


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """Returns the slope of the least-squares line through the logarithms of lengths and values; None for one point."""
    points = [(x, y) for x, y in points if x > 0 and y > 0]
    if len(points) < 2:
        return None
    return float(np.polyfit([log(x) for x, _ in points], [log(y) for _, y in points], 1)[0])


def times(rows: dict[tuple[str, int], Record]) -> list[str]:
    """Returns the table of times: seconds, microseconds per access, and the fitted exponents."""
    heads = " | ".join(f"{accesses:,}" for accesses in ACCESSES)
    lines = [f"| seconds (µs per access), by accesses | {heads} | exponent |", "|---|" + "--:|" * (len(ACCESSES) + 1)]
    for figure in FIGURES:
        if figure == BOUND:
            continue
        found = [rows.get((figure, accesses)) for accesses in ACCESSES]
        cells = [_time(row) for row in found]
        points = [(r["program_accesses"], r["seconds"]) for r in found if r is not None and r["seconds"] is not None]
        lines.append(f"| {figure} | {' | '.join(cells)} | {_number(exponent(points))} |")
    return lines


def memory(rows: dict[tuple[str, int], Record]) -> list[str]:
    """Returns the table of peak memory; the exponent is that of the growth over the two longest programs."""
    heads = " | ".join(f"{accesses:,}" for accesses in ACCESSES)
    lines = [
        f"| peak MiB of the process, by accesses | {heads} | kB per access |",
        "|---|" + "--:|" * (len(ACCESSES) + 1),
    ]
    for figure in FIGURES:
        found = [rows.get((figure, accesses)) for accesses in ACCESSES]
        known = [row for row in found if row is not None and row["peak_mib"] is not None]
        cells = ["-" if row is None or row["peak_mib"] is None else f"{row['peak_mib']:,.0f}" for row in found]
        slope = "-"
        if len(known) > 1:
            first, last = known[0], known[-1]
            more = last["program_accesses"] - first["program_accesses"]
            slope = f"{1024 * (last['peak_mib'] - first['peak_mib']) / more:.2f}"
        lines.append(f"| {figure} | {' | '.join(cells)} | {slope} |")
    return lines


def bounds(rows: dict[tuple[str, int], Record]) -> list[str]:
    """Returns the table of bounds: whether each kept to its limit, and its share of XLA's own latency."""
    lines = [
        f"| accesses | seconds, limit {BOUND_S:g} | kept | columns | floor | bound | best mapping |",
        "|--:|--:|---|--:|--:|--:|--:|",
    ]
    for accesses in ACCESSES:
        row = rows.get((BOUND, accesses))
        if row is None or row["seconds"] is None:
            continue
        shares = " | ".join(f"{100 * row[name]:.2f} %" for name in ("floor", "bound", "mapping"))
        kept = "yes" if row["kept"] else "**no**"
        lines.append(f"| {row['program_accesses']:,} | {row['seconds']:.1f} | {kept} | {row['columns']:,} | {shares} |")
    return lines


def _time(row: Record | None) -> str:
    if row is None or row["seconds"] is None:
        return "-"
    return f"{row['seconds']:.3g} ({row['seconds'] / row['program_accesses'] * 1e6:,.3g})"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def render(page: str, rows: dict[tuple[str, int], Record]) -> str:
    """Returns the page with its tables replaced. Raises SystemExit if the page has no place for a table."""
    tables = (("times", times(rows)), ("memory", memory(rows)), ("bounds", bounds(rows)))
    return fill_marks(page, tables, MAKER, PAGE)


def read(workload: str = WORKLOAD) -> dict[tuple[str, int], Record]:
    """Returns the last row of each figure and length."""
    found = read_runs([RESULTS], key_of)
    return {(figure, accesses): record for (of, accesses, figure), record in found if of == workload}


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), read()).encode())
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
