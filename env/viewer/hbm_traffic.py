"""The panel of HBM traffic: the share of HBM time that instructions, prefetches and write-backs use."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from ..program.mapping import WRITE_BACK
from ..program.target import Target
from .style import INSTRUCTION_COLOUR, MICRO, PREFETCH_COLOUR, WRITE_BACK_COLOUR, format_number, legend_above
from .timed_mapping import TimedMapping

BINS = 700


def draw_traffic(axis: Axes, target: Target, run: TimedMapping) -> None:
    """Draws the share of HBM time in use: instructions and prefetches upward, write-backs downward."""
    line = run.timeline
    grid = np.linspace(*axis.get_xlim(), BINS + 1) / MICRO
    # Seconds of HBM time that instructions use, cumulative. As in the simulator, they come first; copies get the rest.
    knots = np.stack([line.begin_s, line.begin_s + line.hbm_s], axis=1).ravel()
    done = np.cumsum(np.stack([np.zeros(len(line.hbm_s)), line.hbm_s], axis=1).ravel())
    busy = np.interp(grid, knots, done)
    # Bytes moved by each direction, in seconds of HBM time: what a copy has moved inside its span, and all of it after.
    copies, complete = np.zeros((2, BINS + 1)), np.zeros((2, BINS + 2))
    work = (run.mapping.copies[:, 5] - run.mapping.copies[:, 4]) / target.hbm_bandwidth
    outward = run.mapping.copies[:, 1] == WRITE_BACK
    begins, ends = line.copy_begin_s, line.copy_end_s
    idle_before = begins - np.interp(begins, knots, done)
    idle = np.maximum(ends - np.interp(ends, knots, done) - idle_before, 1e-15)
    firsts, lasts = np.searchsorted(grid, begins), np.searchsorted(grid, ends)
    for copy in np.flatnonzero(ends > begins):
        inside, way = slice(firsts[copy], lasts[copy]), int(outward[copy])
        moved = (grid[inside] - busy[inside] - idle_before[copy]) / idle[copy]
        copies[way, inside] += work[copy] * moved
        complete[way, lasts[copy]] += work[copy]
    copies += np.cumsum(complete, axis=1)[:, :-1]
    width = grid[1] - grid[0]
    used = 100 * np.diff(busy) / width
    inward, back = 100 * np.diff(copies, axis=1) / width
    edges = grid * MICRO
    axis.stairs(used, edges, fill=True, color=INSTRUCTION_COLOUR)
    axis.stairs(used + inward, edges, baseline=used, fill=True, color=PREFETCH_COLOUR)
    axis.stairs(-back, edges, fill=True, color=WRITE_BACK_COLOUR)
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
