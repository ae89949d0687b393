"""The table of docs/agent-results.md that holds `solve --solver muzero` with the policy against the same without it."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from ablation_tables import compare, in_percent
from agent_records import HELD_OUT, UNGUIDED
from json_lines import ROOT, Record, read_runs

RESULTS = ROOT / "docs" / "results" / "guidance.jsonl"
# Mode, program, share, budget in seconds, seed.
_Place = tuple[str, str, float, float, int]
Runs = dict[_Place, Record]


def read(path: Path = RESULTS) -> Runs:
    """Returns the last run of each mode, program, share, budget and seed."""
    return dict(read_runs([path], _place_of))


def guidance(runs: Runs) -> list[str]:
    """Returns the table: latency in per cent of XLA's algorithm, means over seeds, by program and budget."""
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


def _place_of(record: Record) -> _Place:
    return (
        record["mode"],
        record["program"],
        float(record["share"]),
        float(record["budget_s"]),
        int(record["seed"]),
    )


def _pairs(runs: Runs, name: str, share: float, seconds: float) -> list[tuple[float, float]]:
    """Returns the ratios without and with the policy of each seed that has both."""
    seeds = sorted({place[4] for place in runs if place[1:4] == (name, share, seconds)})
    found = [[runs.get((mode, name, share, seconds, seed)) for mode in (UNGUIDED, HELD_OUT)] for seed in seeds]
    return [(one["ratio"], other["ratio"]) for one, other in found if one is not None and other is not None]


def _differences(pairs: Iterable[tuple[float, float]]) -> list[float]:
    return [float(np.log(other / one)) for one, other in pairs]


def _cells(pairs: list[tuple[float, float]]) -> list[str]:
    if not pairs:
        return ["-", "-", "-"]
    one, other = np.mean(pairs, axis=0).tolist()
    return [f"{100 * one:.2f}", f"{100 * other:.2f}", f"{100 * (other / one - 1.0):+.2f} %"]


def _sum_up(groups: list[list[float]]) -> str:
    if not groups:
        return "-"
    return in_percent(compare(groups), " %")
