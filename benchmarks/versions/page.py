"""Renders docs/results/versions.md from docs/results/versions.jsonl, which `measure` of this folder fills.

python -m benchmarks.versions.page [--results FILE]
"""

from collections.abc import Sequence

from mallocmuzero.env.capture.printed_estimate import TOLERANCE
from mallocmuzero.env.program.compiler_flags import COLORS, KEEPS, ORDER, PREFETCHES

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..round_trip.page import MODELS, gain
from .measure import RESULTS, key_of

PAGE = ROOT / "docs" / "results" / "versions.md"
# Options by the word of the table.
_OPTIONS = {"order": ORDER, "starts": PREFETCHES, "keeps": KEEPS, "colors": COLORS}


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its table replaced.

    Raises:
      SystemExit: the page has no place for the table.
    """
    return fill_marks(page, (("versions", table(runs)),), "benchmarks/versions/page.py", PAGE)


def table(runs: Sequence[Record]) -> list[str]:
    """Returns the table of versions, oldest first."""
    lines = [
        f"| jax | libtpu | read back | alike, least | {' | '.join(_OPTIONS)} | confirmed, `msa` | `cycles` | kept |",
        "|---|---|--:|--:|" + ":-:|" * len(_OPTIONS) + "--:|--:|---|",
    ]
    for versions in sorted({(run["jax"], run["libtpu"]) for run in runs}, key=_numbers):
        mine = [run for run in runs if (run["jax"], run["libtpu"]) == versions]
        read = [run for run in mine if is_read_back(run)]
        known = [run for run in mine if "refused" in run]
        takes = ["yes" if known and option not in known[0]["refused"] else "" for option in _OPTIONS.values()]
        least = min((run["bytes_alike"] for run in read), default=None)
        cells = [*versions, f"{len(read)} of {len(mine)}", "" if least is None else f"{100 * least:.2f} %", *takes]
        confirmed = [run for run in mine if "confirmed_us" in run]
        for model in MODELS:
            cells.append(", ".join(f"{gain(run, 'default_us', model):+.1f} %" for run in confirmed))
        cells.append(", ".join(run["kept"] or "default" for run in confirmed))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def is_read_back(run: Record) -> bool:
    """Returns whether all of XLA's own mapping was read, and both estimates that the compiler prints come out of it."""
    estimates = run.get("estimates_off", {}).values()
    return (
        run["error"] is None
        and run["bytes_alike"] is not None
        and not run["inexpressible"]
        and all(off is not None and abs(off) <= TOLERANCE for off in estimates)
    )


def _numbers(versions: tuple[str, str]) -> list[list[int]]:
    return [[int(part) for part in version.split(".")] for version in versions]


def main() -> None:
    """Writes the page."""
    runs = write_page(__doc__, PAGE, RESULTS, key_of, render)
    print(f"wrote {PAGE}: {len(runs)} runs")


if __name__ == "__main__":
    main()
