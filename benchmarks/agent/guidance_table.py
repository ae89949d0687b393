"""Tables of docs/results/earlier-agent.md on less fast memory: `guided` with and without its policy, and others."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..ablations.tables import compare, in_percent
from ..common.json_lines import ROOT, Record, read_runs
from .records import HELD_OUT, UNGUIDED

RESULTS = ROOT / "docs" / "results" / "guidance.jsonl"
# Mode, program, share, budget in seconds, seed.
_Place = tuple[str, str, float, float, int]
Runs = dict[_Place, Record]


def read(path: Path = RESULTS) -> Runs:
    """Returns the last run of each mode, program, share, budget and seed."""
    return dict(read_runs([path], place_of))


def guidance(runs: Runs) -> list[str]:
    """Returns the table of runs with and without the policy: means over seeds, in per cent of XLA's algorithm."""
    if not runs:
        return ["No run yet."]
    budgets = sorted({place[3] for place in runs})
    programs = sorted({place[1:3] for place in runs})
    heads = "".join(f" without, {s:g} s | with, {s:g} s | difference |" for s in budgets)
    lines = [f"| program |{heads}", "|---|" + "---:|" * (3 * len(budgets))]
    for name, share in programs:
        cells = [f"`{name}@{share:g}`"]
        for seconds in budgets:
            cells += _cells(_pairs(runs, name, share, seconds))
        lines.append("| " + " | ".join(cells) + " |")
    cells = ["*all*"]
    for seconds in budgets:
        groups = [_differences(_pairs(runs, name, share, seconds)) for name, share in programs]
        cells += ["", "", _sum_up([group for group in groups if group])]
    lines.append("| " + " | ".join(cells) + " |")
    return lines


def rivals(runs: Runs) -> list[str]:
    """Returns the table of all solvers: means over the seeds that all have, in per cent of XLA's algorithm.

    The last row gives the difference of `guided` to each of the others.
    """
    budgets = sorted({place[3] for place in runs if place[0] not in (HELD_OUT, UNGUIDED)})
    if not budgets:
        return ["No run yet."]
    lines = []
    for seconds in budgets:
        others = sorted({place[0] for place in runs if place[3] == seconds} - {HELD_OUT, UNGUIDED})
        modes = (HELD_OUT, *others)
        lines += [f"| {seconds:g} s | `guided` | " + " | ".join(f"`{name}`" for name in others) + " |"]
        lines += ["|---|" + "---:|" * len(modes)]
        groups: dict[str, list[list[float]]] = {name: [] for name in others}
        for name, share in sorted({place[1:3] for place in runs if place[3] == seconds}):
            ratios = _ratios(runs, modes, name, share, seconds)
            if not ratios:
                continue
            means = [f"{100 * mean:.2f}" for mean in np.mean(ratios, axis=0)]
            lines.append(f"| `{name}@{share:g}` | " + " | ".join(means) + " |")
            for place, other in enumerate(others, 1):
                groups[other].append(_differences((row[place], row[0]) for row in ratios))
        lines += ["| *all* | | " + " | ".join(_sum_up(groups[other]) for other in others) + " |", ""]
    return lines[:-1]


def place_of(record: Record) -> _Place:
    """Returns the mode, program, share, budget and seed of a record."""
    return (
        record["mode"],
        record["program"],
        float(record["share"]),
        float(record["budget_s"]),
        int(record["seed"]),
    )


def _ratios(runs: Runs, modes: Sequence[str], name: str, share: float, seconds: float) -> list[tuple[float, ...]]:
    """Returns the ratios of each seed that all modes have, in the order of modes."""
    seeds = sorted({place[4] for place in runs if place[1:4] == (name, share, seconds)})
    found = [[runs.get((mode, name, share, seconds, seed)) for mode in modes] for seed in seeds]
    return [tuple(run["ratio"] for run in of_seed if run) for of_seed in found if all(of_seed)]


def _pairs(runs: Runs, name: str, share: float, seconds: float) -> list[tuple[float, ...]]:
    """Returns the ratios without and with the policy of each seed that has both."""
    return _ratios(runs, (UNGUIDED, HELD_OUT), name, share, seconds)


def _differences(pairs: Iterable[tuple[float, ...]]) -> list[float]:
    return [float(np.log(other / one)) for one, other in pairs]


def _cells(pairs: list[tuple[float, ...]]) -> list[str]:
    if not pairs:
        return ["-", "-", "-"]
    one, other = np.mean(pairs, axis=0).tolist()
    return [f"{100 * one:.2f}", f"{100 * other:.2f}", f"{100 * (other / one - 1.0):+.2f} %"]


def _sum_up(groups: list[list[float]]) -> str:
    if not groups:
        return "-"
    return in_percent(compare(groups), " %")
