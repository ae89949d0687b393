"""The rows of packing tables, on the terminal and on the page."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mallocmuzero.env.packing.pack import FEASIBLE, INFEASIBLE, UNDECIDED

# The figures of one instance, as `measure.py` writes them.
Row = dict[str, Any]

COLUMNS = (
    "instances",
    "buffers",
    "load / capacity",
    "best fit / load",
    "fits",
    "proved not to",
    "undecided",
    "seconds",
    "MiniMalloc: fits",
    "not",
    "undecided",
    "seconds",
    "its seconds / ours",
)


def summary(rows: Mapping[str, Sequence[Row]]) -> list[list[str]]:
    """Returns the cells of each name: counts, and means over its instances; empty where MiniMalloc was not run."""
    lines = []
    for name, found in rows.items():
        theirs = [row for row in found if row["minimalloc_status"] is not None]
        ours, its = (sum(row[key] for row in theirs) for key in ("processor_seconds", "minimalloc_processor_seconds"))
        lines.append(
            [
                name,
                f"{np.mean([row['items'] for row in found]):.0f}",
                f"{np.mean([row['load'] / row['capacity'] for row in found]):.3f}",
                f"{np.mean([row['best_fit'] / row['load'] for row in found]):.3f}",
                *_counts(found, "status"),
                f"{np.mean([row['processor_seconds'] for row in found]):.2f}",
                *_counts(theirs, "minimalloc_status"),
                f"{its / len(theirs):.2f}" if theirs else "",
                f"{its / ours:.1f}" if theirs else "",
            ]
        )
    return lines


def _counts(rows: Sequence[Row], key: str) -> list[str]:
    statuses = [row[key] for row in rows]
    return [f"{statuses.count(each)}/{len(rows)}" if rows else "" for each in (FEASIBLE, INFEASIBLE, UNDECIDED)]
