"""The learning curves of a run, from its metric file."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..run.metric_lines import read_metric_lines

# Points of a curve: as many as a chart has dots across.
_MOST_POINTS = 400
# Programs with a curve of their own; of more, the mean is drawn too.
_MOST_PROGRAMS = 12
# Title, unit, and curves by name. `*` stands for a program.
_CHARTS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Best mapping so far", "% of XLA's default", {"*": "best/*/of_production"}),
    (
        "The agent, evaluated",
        "% of XLA's default",
        {
            "*: policy alone": "evaluation/*/muzero-policy/of_production",
            "*: with search": "evaluation/*/muzero-search/of_production",
        },
    ),
    (
        "Games of self-play: mean latency",
        "µs",
        {"*: whole games": "episode/*/latency_us", "*: games from a plan": "branch/*/latency_us"},
    ),
    ("Loss", "", {"loss": "learner/loss"}),
    (
        "Loss by part",
        "",
        {part: f"learner/loss_{part}" for part in ("policy", "value", "reward", "consistency")},
    ),
    ("Entropy of the policy", "nats", {"policy": "learner/policy_entropy", "search": "learner/target_entropy"}),
    ("Error of the value", "units of return", {"value": "learner/value_error"}),
    ("Moves", "per second", {"all actors": "play/moves_per_s"}),
    ("Updates", "per second", {"learner": "learner/steps_per_s"}),
)


def charts(metrics_file: Path, programs: list[str]) -> list[dict[str, Any]]:
    """Returns the charts that a run has figures for: `title`, `unit`, and `curves` of `name`, `minutes`, `values`.

    Raises:
      FormatError: the metric file cannot be read.
    """
    lines = _read(metrics_file)
    found = []
    for title, unit, names in _CHARTS:
        scale = 100.0 if unit.startswith("%") else 1.0
        curves = [curve for name, key in names.items() for curve in _curves(lines, name, key, programs, scale) if curve]
        # Single points make no curve.
        if any(len(curve["minutes"]) > 1 for curve in curves):
            found.append({"title": title, "unit": unit, "curves": curves})
    return found


def _read(path: Path) -> list[dict[str, Any]]:
    return [line for line in read_metric_lines(path) if isinstance(line.get("minutes"), int | float)]


def _curves(
    lines: list[dict[str, Any]], name: str, key: str, programs: list[str], scale: float
) -> Iterable[dict[str, Any] | None]:
    if "*" not in key:
        yield _curve(name, [(line["minutes"], line.get(key)) for line in lines], scale)
        return
    if len(programs) > _MOST_PROGRAMS:
        keys = [key.replace("*", program) for program in programs]
        means = [(line["minutes"], _mean([line.get(each) for each in keys])) for line in lines]
        yield _curve(name.replace("*", f"mean of {len(programs)} programs"), means, scale)
    for program in programs[:_MOST_PROGRAMS]:
        points = [(line["minutes"], line.get(key.replace("*", program))) for line in lines]
        yield _curve(name.replace("*", program), points, scale)


def _mean(values: list[Any]) -> float | None:
    """Returns the geometric mean of the figures that are known."""
    logs = [math.log(value) for value in values if isinstance(value, int | float) and value > 0]
    return math.exp(math.fsum(logs) / len(logs)) if logs else None


def _curve(name: str, points: list[tuple[float, Any]], scale: float) -> dict[str, Any] | None:
    """Returns a curve, thinned out; None without figures."""
    known = [
        (minutes, scale * value) for minutes, value in points if isinstance(value, int | float) and math.isfinite(value)
    ]
    if not known:
        return None
    every = max(1, math.ceil(len(known) / _MOST_POINTS))
    thinned = known[::every] + ([known[-1]] if (len(known) - 1) % every else [])
    return {
        "name": name,
        "minutes": [round(minutes, 4) for minutes, _ in thinned],
        "values": [float(f"{value:.6g}") for _, value in thinned],
    }
