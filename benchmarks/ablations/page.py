"""Renders docs/results/ablations.md from ablations.jsonl beside it, which `benchmarks.ablations.measure` fills.

    python -m benchmarks.ablations.page [--runs FILE]

Bounds and tuned production come from docs/results/solver-references.json (`python -m benchmarks.solvers.page`).
"""

import argparse
import json
from pathlib import Path

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks
from ..solvers.page import REFERENCES
from .records import RESULTS, ROWS, read, rows
from .tables import Ablations, declared, differences, means, overview, programs

PAGE = ROOT / "docs" / "results" / "ablations.md"


def render(page: str, ablations: Ablations) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    tables = {
        "overview": overview,
        "differences": differences,
        "means": means,
        "programs": programs,
        "rows": declared,
    }
    made = ((mark, table(ablations)) for mark, table in tables.items())
    return fill_marks(page, made, "benchmarks/ablations/page.py", PAGE)


def gather(runs: Path = RESULTS, references: Path = REFERENCES, declared_in: Path = ROWS) -> Ablations:
    """Returns the runs of a file on the programs as they are in the references."""
    entries = {entry["program"]: entry for entry in json.loads(references.read_text(encoding="utf-8"))["programs"]}
    kept = [
        run
        for run in read([runs]).values()
        if run["program"] in entries
        and all(run[what] == entries[run["program"]][what] for what in ("program_sha256", "judged_by"))
    ]
    return Ablations(rows(declared_in), kept, entries)


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=RESULTS, metavar="FILE")
    ablations = gather(parser.parse_args().runs)
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), ablations), encoding="utf-8")
    print(f"wrote {PAGE}: {len(ablations.runs)} runs")


if __name__ == "__main__":
    main()
