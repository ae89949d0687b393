"""The panel of live bytes: buffers between first and last access, against fast memory and the bytes mappings hold."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from ..program.extents import extents
from ..program.live import live_bytes
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from .style import CATEGORIES, INK, LINES, MIB, WRITE_BACK_COLOUR, add_stairs, format_number, legend_above
from .timed_mapping import TimedMapping

# The panel ends at this many times the capacity: in a taller one, the bytes that fit would be too small to see.
MOST_CAPACITIES = 5
# A line has at most twice this many steps: more than a picture has dots across.
MOST_STEPS = 5000


def draw_live_bytes(
    axis: Axes, program: Program, target: Target, edges: NDArray[np.float64], runs: list[TimedMapping]
) -> None:
    """Draws live bytes by kind of buffer, the capacity of fast memory, and the bytes that each mapping holds there."""
    live = _live_bytes(program) / MIB
    every = max(1, program.num_instructions // MOST_STEPS)
    edges, live = _thinned_edges(edges, every), _peaks(live, every)
    base = np.zeros(live.shape[1])
    handles: list[Any] = []
    for (name, colour), layer in zip(CATEGORIES, live, strict=True):
        add_stairs(axis, base + layer, edges, base, fill=True, color=colour, lw=0)
        base = base + layer
        handles.append(Patch(color=colour, label=f"live, {name}"))
    for run, style in zip(runs, LINES, strict=False):
        held = _held_bytes(program, run.mapping) / MIB
        add_stairs(
            axis,
            _peaks(held, every),
            _thinned_edges(run.edges_us, every),
            None,
            fill=False,
            color=INK,
            linewidth=1.2,
            linestyle=style,
        )
        handles.append(Line2D([], [], color=INK, linewidth=1.2, linestyle=style, label=f"held by {run.name}"))
    axis.axhline(target.fast_bytes / MIB, color=WRITE_BACK_COLOUR, linewidth=1.2, linestyle="--")
    handles.append(Line2D([], [], color=WRITE_BACK_COLOUR, linewidth=1.2, linestyle="--", label="fast memory"))
    capacity, peak = target.fast_bytes / MIB, base.max(initial=0)
    axis.set_ylim(0, min(max(peak, capacity) * 1.06, capacity * MOST_CAPACITIES))
    if peak > capacity * MOST_CAPACITIES:
        axis.set_title(f"up to {format_number(peak)} MiB", loc="left", fontsize=9, pad=5)
    axis.set_ylabel("live, MiB")
    legend_above(axis, handles)


def category(program: Program) -> NDArray[np.int64]:
    """Returns `[N]` the number of each buffer's entry in `CATEGORIES`."""
    return np.where(program.definition < 0, 0, np.where(program.is_output, 2, 1))


def _live_bytes(program: Program) -> NDArray[np.float64]:
    """Returns `[3, T]` bytes of the buffers between their first and last access, by category."""
    kind = category(program)
    return np.stack([live_bytes(program, kind == number) for number in range(len(CATEGORIES))])


def _peaks(values: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Returns the highest of each group of `every` values, along the last axis."""
    return values if every == 1 else np.maximum.reduceat(values, np.arange(0, values.shape[-1], every), axis=-1)


def _thinned_edges(edges: NDArray[np.float64], every: int) -> NDArray[np.float64]:
    """Returns the edges of groups of `every` steps, and the last one."""
    return edges if every == 1 else np.append(edges[:-1:every], edges[-1])


def _held_bytes(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[T]` bytes of fast memory that residencies hold."""
    _, start, end, _, low, high = extents(program, mapping.residencies).T
    change = np.zeros(program.num_instructions + 1)
    np.add.at(change, start, high - low)
    np.add.at(change, end + 1, low - high)
    return np.cumsum(change)[:-1]
