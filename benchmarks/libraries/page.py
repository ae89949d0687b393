"""Renders docs/results/libraries.md from docs/results/libraries.jsonl, which `measure` of this folder fills.

python -m benchmarks.libraries.page [--results FILE]
"""

from collections.abc import Sequence

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..round_trip.functions import key_of
from ..round_trip.page import ratio
from ..untuned.page import summary, table
from .measure import LIBRARIES, RESULTS

PAGE = ROOT / "docs" / "results" / "libraries.md"


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    ordered = sorted(runs, key=lambda run: (run["target"], ratio(run, "confirmed_us"), run["function"]))
    made = (("summary", summary(ordered)), ("programs", table(ordered, LIBRARIES)))
    return fill_marks(page, made, "benchmarks/libraries/page.py", PAGE)


def main() -> None:
    """Writes the page."""
    runs = write_page(__doc__, PAGE, RESULTS, key_of, render)
    print(f"wrote {PAGE}: {len(runs)} runs")


if __name__ == "__main__":
    main()
