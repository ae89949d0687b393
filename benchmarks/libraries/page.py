"""Renders docs/results/libraries.md from docs/results/libraries.jsonl, which `measure` of this folder fills.

python -m benchmarks.libraries.page [--results FILE]
"""

from collections.abc import Sequence

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..round_trip.page import MODELS, NOTHING, gain_cells, ratio
from ..untuned.page import room, summary
from .measure import LIBRARIES, RESULTS, key_of

PAGE = ROOT / "docs" / "results" / "libraries.md"


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    ordered = sorted(runs, key=lambda run: (run["target"], ratio(run, "confirmed_us"), run["function"]))
    made = (("summary", summary(ordered)), ("programs", table(ordered)))
    return fill_marks(page, made, "benchmarks/libraries/page.py", PAGE)


def table(runs: Sequence[Record]) -> list[str]:
    """Returns the table of programs, in the given order."""
    lines = [
        "| library | program | target | accesses | loops | room | default, us | promised | confirmed | of flags "
        "| default, us | promised | confirmed | of flags | kept |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        "| | | | | | | **msa** | | | | **cycles** | | | | |",
    ]
    for run in runs:
        cells = [LIBRARIES[run["function"]], f"`{run['function']}`", run["target"]]
        cells += [f"{run['accesses']:,}", f"{run['loops'] or ''}"]
        cells.append("none" if room(run) < NOTHING else f"{room(run):.1f}")
        for model in MODELS:
            cells += gain_cells(run, model)
        lines.append(f"| {' | '.join([*cells, run['kept'] or 'default'])} |")
    return lines


def main() -> None:
    """Writes the page."""
    runs = write_page(__doc__, PAGE, RESULTS, key_of, render)
    print(f"wrote {PAGE}: {len(runs)} runs")


if __name__ == "__main__":
    main()
