"""Writes the tables of docs/results/packing.md from what `measure.py --json` wrote.

python -m benchmarks.packing.page
"""

import json
from collections.abc import Mapping, Sequence

from mallocmuzero.env.storage.atomic import write_atomically

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks
from .table import COLUMNS, Row, summary

PAGE = ROOT / "docs" / "results" / "packing.md"
MAKER = "benchmarks/packing/page.py"
# Tables of the page, each from docs/results/packing-NAME.json.
TABLES = ("challenging", "generated")


def table(rows: Mapping[str, Sequence[Row]]) -> list[str]:
    """Returns the lines of a table."""
    return [
        "| " + " | ".join(COLUMNS) + " |",
        "|---|" + "--:|" * (len(COLUMNS) - 1),
        *("| " + " | ".join(cells) + " |" for cells in summary(rows)),
    ]


def render(page: str, results: Mapping[str, Mapping[str, Sequence[Row]]]) -> str:
    """Returns the page with its tables."""
    return fill_marks(page, [(name, table(rows)) for name, rows in results.items()], MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    folder = PAGE.parent
    results = {
        name: json.loads((folder / f"packing-{name}.json").read_text(encoding="utf-8"))
        for name in TABLES
        if (folder / f"packing-{name}.json").exists()
    }
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), results).encode())


if __name__ == "__main__":
    main()
