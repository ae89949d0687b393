"""Compares the two cost models on every program with a cycle table, and writes docs/cost-models.md.

    python -m benchmarks.cost_models.measure [WORKLOAD ...] [--page PAGE.md] [--picture PICTURE.png]

Shows the size of their disagreement by kind of instruction, the cycles that XLA loses by optimising its own model, and
the error of completing unseen pairs of the cycle tables. The command writes the part of the page between its marks.
"""

import argparse
import sys
from pathlib import Path

from mallocmuzero.env.physics.cost import CYCLES, available_models
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.workloads import load, names

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks
from .picture import draw
from .study import study
from .tables import tables


def main() -> int:
    """Writes page and picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names or files; all committed workloads without any")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "cost-models.md")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "results" / "cost-models.png")
    arguments = parser.parse_args()
    programs = [load(name) for name in arguments.workload or names()]
    usable = [p for p in programs if CYCLES in available_models(p) and p.production is not None]
    for program in programs:
        if program not in usable:
            print(f"left out: {program.name} has no cycle table or no production mapping", file=sys.stderr)
    if not usable:
        print("no program has a cycle table and a production mapping", file=sys.stderr)
        return 1
    studies = [study(program) for program in usable]
    made = [("tables", ["", *tables(studies).splitlines(), ""])]
    page = fill_marks(
        arguments.page.read_text(encoding="utf-8"), made, "benchmarks/cost_models/measure.py", arguments.page
    )
    write_atomically(arguments.page, page.encode())
    draw(studies, arguments.picture)
    print(f"wrote {arguments.page} and {arguments.picture}: {len(studies)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
