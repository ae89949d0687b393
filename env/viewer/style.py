"""Style of the pictures: units, colours, Matplotlib settings, panels on one time axis, legends, numbers as text."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

MIB = 2.0**20
MICRO = 1e6

# Okabe and Ito's palette, which colour-blind readers can tell apart.
INPUT, INTERMEDIATE, OUTPUT = "#56B4E9", "#F0C75E", "#009E73"
PREFETCH_COLOUR, WRITE_BACK_COLOUR, INSTRUCTION_COLOUR = "#0072B2", "#D55E00", "#9A9A9A"
CATEGORIES = (("program input", INPUT), ("intermediate", INTERMEDIATE), ("program output", OUTPUT))
INK = "#222222"
HATCHES = ("/////", "\\\\\\\\\\")
LINES: tuple[Any, ...] = ("-", ":")
HALO = [withStroke(linewidth=2.2, foreground="white", alpha=0.75)]

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.edgecolor": "#666666",
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "hatch.linewidth": 0.7,
    "svg.hashsalt": "mallocmuzero",
}


def panels(heights: list[float]) -> tuple[Figure, list[Axes]]:
    """Returns a figure with panels of these heights, in inches, one above the other on one time axis."""
    gap, top, bottom, width = 0.42, 1.15, 0.6, 14.0
    height = top + bottom + sum(heights) + gap * (len(heights) - 1)
    figure = Figure(figsize=(width, height), facecolor="white")
    axes: list[Axes] = []
    upper = height - top
    for panel in heights:
        box = (0.062, (upper - panel) / height, 0.92, panel / height)
        axes.append(figure.add_axes(box, sharex=axes[0] if axes else None))
        upper -= panel + gap
    for axis in axes:
        axis.tick_params(labelbottom=axis is axes[-1], length=3)
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
        axis.yaxis.set_major_locator(MaxNLocator(5))
        axis.set_axisbelow(True)
        axis.grid(axis="x", color="#E6E6E6", linewidth=0.8)
    axes[-1].set_xlabel("time in µs")
    axes[-1].xaxis.set_major_locator(MaxNLocator(10))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(value)))
    return figure, axes


def add_stairs(
    axis: Axes, values: NDArray[np.float64], edges: NDArray[np.float64], baseline: Any = 0.0, **style: Any
) -> None:
    """Adds steps, as `Axes.stairs` does, to a panel whose limits are set elsewhere: to find the limits of thousands of
    steps, Matplotlib treats each as a curve of its own."""
    axis.add_artist(StepPatch(values, edges, baseline=baseline, **style))


def legend_above(axis: Axes, handles: list[Any]) -> None:
    """Adds a legend in one row above the right end of a panel."""
    axis.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        borderaxespad=0.2,
        borderpad=0,
        handlelength=1.4,
        columnspacing=1.3,
    )


def format_number(value: float) -> str:
    """Returns the text of a number: up to three significant digits below 100, separated thousands above."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
