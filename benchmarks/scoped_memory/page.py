"""Renders docs/results/scoped-memory.md from docs/results/scoped-memory.jsonl and scoped-memory-tuned.jsonl, which
`measure` and `tuned` of this folder fill.

python -m benchmarks.scoped_memory.page [--results FILE]
"""

from collections.abc import Sequence
from statistics import mean, median

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from .measure import RESULTS, best_of, key_of
from .tuned import RESULTS as TUNED
from .tuned import key_of as key_of_tuned

PAGE = ROOT / "docs" / "results" / "scoped-memory.md"


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    compared = [run for run in runs if run["sizes"][0]["error"] is None]
    tuned = [run for _, run in read_runs([TUNED], key_of_tuned)]
    made = (("targets", targets(compared)), ("tuned", tuned_table(tuned)), ("programs", programs(compared)))
    return fill_marks(page, made, "benchmarks/scoped_memory/page.py", PAGE)


def gain(run: Record, model: str) -> float:
    """Returns what the best size gains, in per cent of the latency in the compiler's."""
    default = run["sizes"][0]["us"][model]
    return 100.0 * (1.0 - best_of(run)["us"][model] / default)


def targets(runs: Sequence[Record]) -> list[str]:
    """Returns counts and gains for each target."""
    lines = [
        "| target | programs | smaller | larger | scavenging | `cycles`, mean | median | most | 1 % or more "
        "| `msa`, mean |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for target in [*sorted({_generation(run) for run in runs}), "all"]:
        mine = [run for run in runs if target in ("all", _generation(run))]
        found = [gain(run, "cycles") for run in mine]
        moved = [run["kib"] - run["sizes"][0]["kib"] for run in mine]
        cells = [target, f"{len(mine)}", f"{sum(by < 0 for by in moved)}", f"{sum(by > 0 for by in moved)}"]
        cells.append(f"{sum(run['scavenges'] for run in mine)}")
        cells += [f"{one:.1f} %" for one in (mean(found), median(found), max(found))]
        cells += [f"{sum(one >= 1.0 for one in found)}", f"{mean(gain(run, 'msa') for run in mine):+.1f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def tuned_table(runs: Sequence[Record]) -> list[str]:
    """Returns the functions that were tuned, with a search for the size and without."""
    lines = [
        "| function | target | MiB | size alone, `cycles` | `msa` | mapping alone, `cycles` | `msa` "
        "| both, `cycles` | `msa` |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    by = {(run["function"], run["target"], run["sized"]): run for run in runs}
    for function, target, sized in sorted(by):
        with_size, alone = by[function, target, sized], by.get((function, target, False))
        if not sized or alone is None:
            continue
        tried, us = with_size["scoped_memory"], with_size["default_us"]
        cells = [f"`{function}`", target, _setting(tried)]
        for before, after in (
            (us, tried["default_us"]),
            (alone["default_us"], alone["confirmed_us"]),
            (us, with_size["confirmed_us"]),
        ):
            cells += [f"{100.0 * (1.0 - after[model] / before[model]):+.2f} %" for model in ("cycles", "msa")]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def programs(runs: Sequence[Record]) -> list[str]:
    """Returns all programs, those first that gain most."""
    lines = [
        "| program | split | MiB | `cycles` | `msa` | tried, MiB: gain under `cycles` | seconds |",
        "|---|---|--:|--:|--:|---|--:|",
    ]
    for run in sorted(runs, key=lambda run: -gain(run, "cycles")):
        default, *others = run["sizes"]
        tried = []
        for size in sorted(others, key=lambda size: (int(size["kib"]), bool(size["scavenges"]))):
            us = (size["us"] or {}).get("cycles")
            said = "none" if us is None else f"{100.0 * (1.0 - us / default['us']['cycles']):+.1f}"
            tried.append(f"{size['kib'] / 1024:g}{'s' if size['scavenges'] else ''}: {said}")
        cells = [f"`{run['program']}`", run["split"], _setting(run)]
        cells += [f"{gain(run, model):+.2f} %" for model in ("cycles", "msa")]
        cells += [", ".join(tried), f"{run['seconds']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _setting(run: Record) -> str:
    return f"{run['kib'] / 1024:g}{'s' if run['scavenges'] else ''}"


def _generation(run: Record) -> str:
    return str(run["target"]).partition(":")[0]


def main() -> None:
    """Writes the page."""
    runs = write_page(__doc__, PAGE, RESULTS, key_of, render)
    print(f"wrote {PAGE}: {len(runs)} programs")


if __name__ == "__main__":
    main()
