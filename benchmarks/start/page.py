"""Renders docs/start.md from docs/results/start.json, which `measure` of this folder writes.

python -m benchmarks.start.page [--results FILE]
"""

import argparse
import json
from pathlib import Path
from typing import Any

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from .measure import RESULTS, WALL

PAGE = ROOT / "docs" / "start.md"
_MAKER = "benchmarks/start/page.py"


def render(page: str, result: dict[str, Any]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    before = result.get("against", {"commit": None, "rows": []})
    known = {(row["name"], row["cold"], row["cores"]): row for row in before["rows"]}
    tables = []
    for mark, cold in (("cold", True), ("warm", False)):
        rows = [row for row in result["rows"] if row["cold"] == cold]
        tables.append((mark, table(rows, known, before["commit"])))
    return fill_marks(page, tables, _MAKER, PAGE)


def table(rows: list[Record], known: dict[tuple[str, bool, int], Record], commit: str | None) -> list[str]:
    """Returns the lines of a table; `known` are the rows of an older `commit`, if there is one."""
    heads = ["start", "cores", "wall, s", "processor, s", "functions compiled", "budget"]
    if commit is not None:
        heads += [f"wall at {commit}, s", f"processor at {commit}, s"]
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    for row in rows:
        cells = [f"`{row['name']}`", str(row["cores"]), *_seconds(row), str(row["functions"]), _budget(row)]
        if commit is not None:
            older = known.get((row["name"], row["cold"], row["cores"]))
            cells += ["-", "-"] if older is None else _seconds(older)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _seconds(row: Record) -> list[str]:
    digits = 1 if row["cold"] else 2
    return [f"{row['wall_s']:.{digits}f}", f"{row['processor_s']:.{digits}f}"]


def _budget(row: Record) -> str:
    if row["budget"] is None:
        return "-"
    kept = "kept" if row[row["of"]] <= row["budget"] else "missed"
    return f"{row['budget']:g} s {'wall' if row['of'] == WALL else 'processor'}: {kept}"


def main() -> None:
    """Renders the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    result = json.loads(arguments.results.read_text(encoding="utf-8"))
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), result), encoding="utf-8")


if __name__ == "__main__":
    main()
