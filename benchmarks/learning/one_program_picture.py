"""Picture of docs/results/learning.md: the best mapping of a program over time, with learning and without."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from mallocmuzero.env.viewer.style import INSTRUCTION_COLOUR, PREFETCH_COLOUR, STYLE

from ..common.json_lines import ROOT, Record
from .one_program_pairs import Pair

PICTURE = ROOT / "docs" / "results" / "one-program.png"
_COLUMNS = 3
_TIMES = (15, 60, 240, 960)


def draw(found: Sequence[Pair], path: Path = PICTURE) -> None:
    """Draws a panel for each pair whose games follow nothing, of seed 0, the longest runs first; none without pairs."""
    found = [pair for pair in found if not pair.follow and pair.learning["seed"] == 0]
    found = sorted(found, key=lambda pair: (-pair.seconds, pair.learning["program"]))
    if not found:
        return
    rows = -(-len(found) // _COLUMNS)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2 * _COLUMNS, 2.9 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
        for panel, pair in zip(panels, found, strict=False):
            _draw_pair(panel, pair)
        for panel in panels[len(found) :]:
            panel.set_axis_off()
        panels[0].legend(fontsize=9, frameon=False)
        figure.savefig(path, dpi=110)


def _draw_pair(panel: Axes, pair: Pair) -> None:
    for run, colour, label in (
        (pair.frozen, INSTRUCTION_COLOUR, "frozen weights"),
        (pair.learning, PREFETCH_COLOUR, "learning"),
    ):
        seconds, best = zip(*_points(run), strict=True)
        panel.plot(seconds, best, "o-", ms=3, lw=1.8, color=colour, label=label)
        above = run["best"] > min(pair.learning["best"], pair.frozen["best"])
        end = (seconds[-1], best[-1])
        panel.annotate(f" {best[-1]:.1f}", end, color=colour, fontsize=9, va="bottom" if above else "top")
    panel.set_xscale("log")
    panel.set_xticks(_TIMES)
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} s"))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.margins(x=0.12)
    panel.set_ylabel(f"{pair.learning['objective']}, % of production")
    panel.set_title(pair.learning["program"], loc="left", fontsize=10)


def _points(run: Record) -> list[tuple[float, float]]:
    """Returns seconds and the best so far in per cent of production, the end included."""
    points = [*run["curve"], (run["seconds"], run["best"])]
    return [(float(seconds), 100.0 * float(best)) for seconds, best in points]
