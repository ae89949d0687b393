"""Renders docs/results/round-trip.md from docs/results/round-trip.jsonl, which `measure` of this folder fills.

python -m benchmarks.round_trip.page [--runs FILE]
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from .records import RESULTS, kind_of, programs, read

PAGE = ROOT / "docs" / "results" / "round-trip.md"
MODELS = ("msa", "cycles")
# Gains of a model below which nothing counts as gained, and room that is none, in per cent.
NOTHING = 0.1
# Placements whose worse ratios to XLA's default differ by less are equally good.
_SAME = 1e-6


def render(page: str, runs: Sequence[Record], wanted: Sequence[str]) -> str:
    """Returns the page with its tables replaced.

    Args:
      page: the text of the page.
      runs: at most one run per program.
      wanted: the programs to run.

    Raises:
      SystemExit: the page has no place for a table.
    """
    known = {run["program"]: run for run in runs}
    chosen = [known[name] for name in wanted if name in known]
    missing = [name for name in wanted if name not in known]
    made = (
        ("summary", summary(chosen, missing)),
        ("programs", table(chosen)),
        ("candidates", kinds(chosen)),
        ("kinds", of_kinds(runs)),
    )
    return fill_marks(page, made, "benchmarks/round_trip/page.py", PAGE)


def gain(run: Record, over: str, model: str, what: str = "confirmed_us") -> float:
    """Returns the gain in per cent of `what` over `over` under a cost model; both name fields of the run."""
    before = float(run[over][model])
    return 100.0 * (before - float(run[what][model])) / before


def gains(run: Record) -> bool:
    """Returns whether the confirmed placement gains over XLA's default under both models."""
    return all(gain(run, "default_us", model) > NOTHING for model in MODELS)


def mean_gains(runs: Sequence[Record], over: str) -> str:
    """Returns the mean confirmed gain over `over` under each cost model, in words."""
    return ", ".join(f"{mean(gain(run, over, model) for run in runs):+.2f} % in `{model}`" for model in MODELS)


def ratio(run: Record, what: str) -> float:
    """Returns the worse of the ratios to XLA's default under the two cost models, which `robust` judges by."""
    return max(float(run[what][model]) / float(run["default_us"][model]) for model in MODELS)


def beats_flags(run: Record) -> bool:
    """Returns whether the confirmed placement is better than the best of the flag grid."""
    return ratio(run, "confirmed_us") < ratio(run, "flags_us") - _SAME


def summary(runs: Sequence[Record], missing: Sequence[str]) -> list[str]:
    """Returns the summary of all runs, and the missing programs."""
    lines = [f"{len(runs)} of {len(runs) + len(missing)} contended programs for one chip have been run."]
    if runs:
        against = sum(beats_flags(run) for run in runs)
        behind = [run["program"] for run in runs if ratio(run, "confirmed_us") > ratio(run, "flags_us") + _SAME]
        lines.append(f"Confirmed better than the best of the flag grid by the worse ratio: {against} of {len(runs)}.")
        lines.append(f"Confirmed worse than it: {_listed(behind)}.")
        mixed = [
            f"{run['program']} ({model} {gain(run, 'flags_us', model):+.2f} %)"
            for run in runs
            for model in MODELS
            if gain(run, "flags_us", model) < -100 * _SAME
        ]
        lines.append(f"Worse than it under one model: {_listed(mixed)}.")
        for over, name in (("default_us", "XLA's default"), ("flags_us", "the best of the flag grid")):
            lines.append(f"Mean confirmed gain over {name}: {mean_gains(runs, over)}.")
        lines.append(f"XLA's default stays on: {_listed([run['program'] for run in runs if run['kept'] is None])}.")
        split = [run["program"] for run in runs if min(gain(run, "default_us", model) for model in MODELS) < -1e-4]
        lines.append(f"Kept although one model calls it worse than the default: {_listed(split)}.")
    lines.append(f"Not run yet: {_listed(missing)}.")
    return [f"- {line}" for line in lines]


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) if names else "none"


def table(runs: Sequence[Record]) -> list[str]:
    """Returns the table of programs."""
    lines = [
        "| program | split | target | default, us | promised | confirmed | of flags "
        "| default, us | promised | confirmed | of flags | kept | as foreseen | cycles | solver | seconds |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|---|",
        "| | | | **msa** | | | | **cycles** | | | | | | | | |",
    ]
    for run in runs:
        cells = [f"`{run['program']}`", run["split"], run["target"]]
        for model in MODELS:
            cells += gain_cells(run, model)
        alike = run["decoded_as_foreseen"]
        cells += [run["kept"] or "default", "" if alike is None else f"{100 * alike['bytes']:.1f}"]
        cells += [run["cycles_are"] or "", f"`{run['solver']}`", f"{run['solve_s']:g} + {run['translate_s']:g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def of_kinds(runs: Sequence[Record]) -> list[str]:
    """Returns the table of programs with loops, on several chips, or long, contended or not."""
    lines = [
        "| program | kind | split | default, us | promised | confirmed | of flags "
        "| default, us | promised | confirmed | of flags | kept | as foreseen | cycles | solver |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|---|---|",
        "| | | | **msa** | | | | **cycles** | | | | | | | |",
    ]
    found = {run["program"]: kind_of(run["program"]) for run in runs}
    for run in sorted(runs, key=lambda run: (found[run["program"]], run["program"])):
        if not found[run["program"]]:
            continue
        cells = [f"`{run['program']}`", found[run["program"]], run["split"]]
        for model in MODELS:
            cells += gain_cells(run, model)
        alike = run["decoded_as_foreseen"]
        cells += [run["kept"] or "default", "" if alike is None else f"{100 * alike['bytes']:.1f}"]
        cells += [run["cycles_are"] or "", f"`{run['solver']}`"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def gain_cells(run: Record, model: str) -> list[str]:
    """Returns the default's microseconds under a cost model, and gains: promised, confirmed, over the best flags."""
    default = run["default_us"][model]
    return [
        "-" if default is None else f"{default:,.1f}",
        _gain(run, "default_us", model, "promised_us"),
        _gain(run, "default_us", model),
        _gain(run, "flags_us", model),
    ]


def _gain(run: Record, over: str, model: str, what: str = "confirmed_us") -> str:
    """Returns a gain in per cent for people; a dash where a figure is missing."""
    if run[over] is None or run[over][model] is None or run[what][model] is None:
        return "-"
    return f"{gain(run, over, model, what):+.2f}"


def kinds(runs: Sequence[Record]) -> list[str]:
    """Returns the table of kinds of options: tried, compiled, better, kept, and decoded as foreseen."""
    lines = [
        "| kind | asked | not done | better than the default | kept | did as foreseen |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    tried = [(run, entry) for run in runs for entry in run["candidates"]]
    for kind in sorted({entry["kind"] for _, entry in tried}):
        mine = [(run, entry) for run, entry in tried if entry["kind"] == kind]
        done = [(run, entry) for run, entry in mine if entry["confirmed_us"] is not None]
        better = sum(ratio({**run, **entry}, "confirmed_us") < 1.0 - _SAME for run, entry in done)
        count: Callable[[str], int] = lambda key, mine=mine: sum(bool(entry[key]) for _, entry in mine)  # noqa: E731
        alike = sum(entry["as_foreseen"] is not None and entry["as_foreseen"]["bytes"] > 0.999 for _, entry in done)
        lines.append(f"| {kind} | {len(mine)} | {count('error')} | {better} | {count('kept')} | {alike} |")
    return lines


def main() -> None:
    """Writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    runs = {run["program"]: run for run in read([arguments.runs]).values()}
    page = render(PAGE.read_text(encoding="utf-8"), list(runs.values()), programs())
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE}: {len(runs)} runs")


if __name__ == "__main__":
    main()
