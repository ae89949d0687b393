"""The panel of HBM traffic: the share of HBM time that instructions, prefetches and write-backs use."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from ..program.target import Target
from .style import (
    INSTRUCTION_COLOUR,
    MICRO,
    PREFETCH_COLOUR,
    WRITE_BACK_COLOUR,
    add_stairs,
    format_number,
    legend_above,
)
from .timed_mapping import TimedMapping
from .traffic import traffic

BINS = 700


def draw_traffic(axis: Axes, target: Target, run: TimedMapping) -> None:
    """Draws the share of HBM time in use: instructions and prefetches upward, write-backs downward."""
    grid = np.linspace(*axis.get_xlim(), BINS + 1) / MICRO
    line = traffic(target, run.mapping, run.timeline)
    width = grid[1] - grid[0]
    used, inward, back = (
        100 * np.diff(np.interp(grid, line.seconds, done)) / width
        for done in (line.instructions, line.prefetches, line.write_backs)
    )
    edges = grid * MICRO
    add_stairs(axis, used, edges, fill=True, color=INSTRUCTION_COLOUR, lw=0)
    add_stairs(axis, used + inward, edges, used, fill=True, color=PREFETCH_COLOUR, lw=0)
    add_stairs(axis, -back, edges, fill=True, color=WRITE_BACK_COLOUR, lw=0)
    lowest = -100 if back.max(initial=0) > 50 else -50 if back.max(initial=0) > 0 else 0
    axis.set_ylim(lowest, 100)
    axis.axhline(0, color="#666666", linewidth=0.8)
    axis.set_ylabel("HBM busy, %")
    axis.set_yticks([lowest, 0, 50, 100] if lowest else [0, 50, 100])
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(abs(value))))
    handles = [
        Patch(color=INSTRUCTION_COLOUR, label="instructions"),
        Patch(color=PREFETCH_COLOUR, label="prefetches"),
        Patch(color=WRITE_BACK_COLOUR, label="write-backs (downward)"),
    ]
    legend_above(axis, handles)
