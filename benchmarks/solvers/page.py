"""Renders docs/results/solvers.md from docs/results/solvers.jsonl, which `python -m benchmarks.solvers.measure` fills,
and solvers-faster.jsonl.

    python -m benchmarks.solvers.page [--runs FILE]

Computes what runs are compared with (production, the best of the compiler's flags, bounds) from the committed programs
and keeps it in docs/results/solver-references.json; a test checks the page against these two files. The pages of
`benchmarks.agent` and `benchmarks.ablations` read the references too: render them after this one.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from mallocmuzero.env import workloads
from mallocmuzero.env.storage.atomic import write_atomically

from ..common.json_lines import ROOT, Key, Record
from ..common.marked_page import fill_marks
from .records import FASTER, RESULTS, read
from .references import reference
from .tables import Board, means, more_time, overview, picks, programs, steady

PAGE = ROOT / "docs" / "results" / "solvers.md"
REFERENCES = RESULTS.with_name("solver-references.json")


def render(page: str, board: Board, faster: Board) -> str:
    """Returns the page with its tables replaced.

    Args:
      page: the page before.
      board: the runs of all solvers.
      faster: the runs on the faster machine.

    Raises:
      SystemExit: the page has no place for a table.
    """
    tables = {"overview": overview, "means": means, "steady": steady, "pick": picks, "programs": programs}
    made = [(mark, table(board)) for mark, table in tables.items()]
    made += [("steady on the faster", steady(faster)), ("more time", more_time(faster))]
    return fill_marks(page, made, "benchmarks/solvers/page.py", PAGE)


def make_board(runs: dict[Key, Record], references: list[dict[str, Any]]) -> Board:
    """Returns the runs on the programs as they are in `references`."""
    by_key = {(r["program"], r["program_sha256"], r["judged_by"], r["objective"]): r for r in references}
    kept = [run for key, run in runs.items() if key[:4] in by_key]
    return Board(kept, {entry["program"]: entry for entry in references})


def main() -> None:
    """Writes the page and the references."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    references = [reference(workloads.load(name)) for name in workloads.names()]
    runs = read([arguments.runs])
    lines = ",\n ".join(json.dumps(entry, sort_keys=True) for entry in references)
    write_atomically(REFERENCES, f'{{"programs": [\n {lines}\n]}}\n'.encode())
    board = make_board(runs, references)
    page = render(PAGE.read_text(encoding="utf-8"), board, make_board(read([FASTER]), references))
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE} and {REFERENCES}: {len(board.runs)} of {len(runs)} runs")


if __name__ == "__main__":
    main()
