"""Renders docs/results/untuned.md from docs/results/untuned.jsonl, which `measure` of this folder fills.

python -m benchmarks.untuned.page [--results FILE]
"""

from collections.abc import Mapping, Sequence
from statistics import mean

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..round_trip.functions import key_of
from ..round_trip.page import MODELS, NOTHING, gain, gain_cells, gains, ratio
from .measure import RESULTS

PAGE = ROOT / "docs" / "results" / "untuned.md"


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    ordered = sorted(runs, key=lambda run: (run["target"], ratio(run, "confirmed_us")))
    made = (("summary", summary(ordered)), ("functions", table(ordered)))
    return fill_marks(page, made, "benchmarks/untuned/page.py", PAGE)


def summary(runs: Sequence[Record]) -> list[str]:
    """Returns means and counts for each target."""
    lines = [
        "| target | functions | without room | gain in both models | mean, `msa` | `cycles` "
        "| over the best flags, `msa` | `cycles` |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for target in sorted({run["target"] for run in runs}):
        mine = [run for run in runs if run["target"] == target]
        both = sum(map(gains, mine))
        cells = [target, f"{len(mine)}", f"{sum(room(run) < NOTHING for run in mine)}", f"{both}"]
        for over in ("default_us", "flags_us"):
            cells += [f"{mean(gain(run, over, model) for run in mine):+.1f} %" for model in MODELS]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def room(run: Record) -> float:
    """Returns how far below production a mapping may come under `robust`, in per cent; all of it without a bound."""
    return 100.0 * (1.0 - run["bound"]) if run["bound"] is not None else 100.0


def table(runs: Sequence[Record], libraries: Mapping[str, str] | None = None) -> list[str]:
    """Returns the table of functions, in the given order.

    Args:
      runs: a run of each function.
      libraries: by function, the library that it is of, for a column more.
    """
    head = ["function", "target"] if libraries is None else ["library", "program", "target"]
    lines = [
        f"| {' | '.join(head)} | accesses | loops | room | default, us | promised | confirmed | of flags "
        "| default, us | promised | confirmed | of flags | kept |",
        f"|{'---|' * len(head)}--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        f"{'| ' * (len(head) + 3)}| **msa** | | | | **cycles** | | | | |",
    ]
    for run in runs:
        cells = [] if libraries is None else [libraries[run["function"]]]
        cells += [f"`{run['function']}`", run["target"], f"{run['accesses']:,}", f"{run['loops'] or ''}"]
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
