"""The picture of a mapping: what lies where in fast memory and when, what HBM does meanwhile, how much is live."""

import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from ..errors import UserError
from ..physics.cost import available_models
from ..physics.simulator import Timeline, simulate
from ..program.mapping import PREFETCH, WRITE_BACK, Mapping
from ..program.program import Program, all_hbm
from ..program.target import Target
from ..storage.atomic import write_atomically

SUFFIXES = (".png", ".svg")
MIB = 2.0**20
MICRO = 1e6
BINS = 700
MOST_LABELS = 60
# The panel of live bytes ends at this many times the capacity: beyond it, what fits could not be seen.
PRESSURE_TIMES = 5

# Okabe and Ito's palette, which colour-blind readers can tell apart.
INPUT, INTERMEDIATE, OUTPUT = "#56B4E9", "#F0C75E", "#009E73"
PREFETCH_COLOUR, WRITE_BACK_COLOUR, INSTRUCTION_COLOUR = "#0072B2", "#D55E00", "#9A9A9A"
CATEGORIES = (("program input", INPUT), ("intermediate", INTERMEDIATE), ("program output", OUTPUT))
INK = "#222222"
_HATCHES = ("/////", "\\\\\\\\\\")
_LINES: tuple[Any, ...] = ("-", ":")
_HALO = [withStroke(linewidth=2.2, foreground="white", alpha=0.75)]

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


@dataclass(frozen=True)
class _Run:
    """A mapping with its name and what happens when."""

    name: str
    mapping: Mapping
    timeline: Timeline

    @property
    def edges_us(self) -> NDArray[np.float64]:
        """`[T + 1]` when each instruction begins to run; the last entry is the end of the program."""
        end = self.timeline.begin_s[-1:] + self.timeline.run_s[-1:] + self.timeline.wait_s[-1]
        return np.concatenate([self.timeline.begin_s, end]) * MICRO


def draw(
    program: Program,
    mapping: Mapping | None,
    path: str | os.PathLike[str],
    *,
    target: Target | None = None,
    timeline: Timeline | None = None,
    beside: Mapping | None = None,
    names: tuple[str, str] = ("mapping", "XLA's production mapping"),
    model: str = "msa",
    window_us: tuple[float, float] | None = None,
) -> None:
    """Draws a mapping, two mappings on shared axes, or a program without one.

    Time runs to the right, in microseconds; a loop body is drawn once, and live bytes as `mapping` times them.
    Rectangles are residencies, hatched while a prefetch fills them or a write-back saves them.

    Args:
      program: the program.
      mapping: a mapping that `verify` accepts; None draws live bytes and the all-in-HBM time of each instruction.
      path: a `.png` or `.svg` file.
      target: the hardware, if not the program's own.
      timeline: of `mapping`, if it is at hand; otherwise it is simulated.
      beside: a second mapping, drawn below.
      names: what to call the two mappings.
      model: name of the cost model.
      window_us: first and last microsecond to draw; None draws the whole program.

    Raises:
      UserError: an empty window, another suffix, a program without instructions, or a file that cannot be written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise UserError(
            f"{path}: pictures are {' or '.join(SUFFIXES)} files, not {suffix or 'without a suffix'}; rename it"
        )
    if not program.num_instructions:
        raise UserError(f"program {program.name!r} has no instructions to draw")
    if window_us is not None and not 0 <= window_us[0] < window_us[1]:
        raise UserError(f"the window {window_us[0]}..{window_us[1]} us is empty; give the earlier time first")
    target = target or program.target
    with matplotlib.rc_context(STYLE):
        if mapping is None:
            figure = _draw_program(program, target, model, window_us)
        else:
            runs = [_Run(names[0], mapping, timeline or simulate(program, target, mapping, model))]
            if beside is not None:
                runs.append(_Run(names[1], beside, simulate(program, target, beside, model)))
            figure = _draw_runs(program, target, runs, model, window_us)
        data = io.BytesIO()
        figure.savefig(data, format=suffix[1:], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)
    write_atomically(path, data.getvalue())


def _draw_runs(
    program: Program, target: Target, runs: list[_Run], model: str, window_us: tuple[float, float] | None
) -> Figure:
    heights = [4.6, 1.3] * len(runs) + [1.5]
    figure, axes = _panels(heights)
    window_us = window_us or (0, max(run.edges_us[-1] for run in runs))
    for index, run in enumerate(runs):
        memory, traffic = axes[2 * index : 2 * index + 2]
        memory.set_xlim(*window_us)
        _draw_memory(memory, program, target, run)
        _draw_traffic(traffic, target, run)
        waits = f", {_number(run.timeline.waited_s * MICRO)} µs of it waiting for copies"
        latency = f"{run.name}: {_number(run.timeline.latency_s * MICRO)} µs"
        memory.set_title(
            f"{latency} ({model}, steady){waits}{_by_others(program, target, run.mapping, model)}",
            loc="left",
            fontsize=11,
            pad=7,
        )
    _draw_pressure(axes[-1], program, target, runs[0].edges_us, runs)
    handles: list[Any] = [Patch(facecolor=colour, edgecolor="none", label=name) for name, colour in CATEGORIES]
    directions = {int(direction) for run in runs for direction in run.mapping.copies[:, 1]}
    if PREFETCH in directions:
        handles.append(
            Patch(facecolor="white", edgecolor=PREFETCH_COLOUR, hatch=_HATCHES[0], label="prefetch in flight")
        )
    if WRITE_BACK in directions:
        handles.append(
            Patch(facecolor="white", edgecolor=WRITE_BACK_COLOUR, hatch=_HATCHES[1], label="write-back in flight")
        )
    if program.reserved.any():
        handles.append(Patch(facecolor="#555555", edgecolor="none", label="reserved by an instruction"))
    _head(figure, program, target, handles)
    return figure


def _by_others(program: Program, target: Target, mapping: Mapping, model: str) -> str:
    """Returns what the cost models that are not drawn say of a mapping."""
    others = [other for other in available_models(program) if other != model]
    seconds = {other: simulate(program, target, mapping, other).latency_s for other in others}
    return "".join(f"; {_number(s * MICRO)} µs ({other})" for other, s in seconds.items())


def _draw_program(program: Program, target: Target, model: str, window_us: tuple[float, float] | None) -> Figure:
    run = _Run("all in HBM", all_hbm(program), simulate(program, target, all_hbm(program), model))
    figure, (pressure, times) = _panels([3.2, 3.2])
    pressure.set_xlim(*(window_us or (0, run.edges_us[-1])))
    _draw_pressure(pressure, program, target, run.edges_us, [])
    edges, line = run.edges_us, run.timeline
    width = np.maximum(line.run_s * MICRO, 1e-9)
    memory = (line.hbm_s - np.minimum(line.hbm_s, line.compute_s)) * MICRO
    times.bar(edges[:-1], line.compute_s * MICRO, width, align="edge", color=INSTRUCTION_COLOUR, label="compute")
    bottom = line.compute_s * MICRO
    times.bar(edges[:-1], memory, width, bottom, align="edge", color=PREFETCH_COLOUR, label="waiting for HBM")
    times.set_ylabel("µs per instruction")
    times.legend(loc="upper right", frameon=False, ncols=2)
    latency = f"everything in HBM: {_number(line.latency_s * MICRO)} µs ({model})"
    pressure.set_title(latency, loc="left", fontsize=11, pad=7)
    _head(figure, program, target, [])
    return figure


# ---- panels ----------------------------------------------------------------------------------------------------------


def _panels(heights: list[float]) -> tuple[Figure, list[Axes]]:
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
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
        axis.yaxis.set_major_locator(MaxNLocator(5))
        axis.set_axisbelow(True)
        axis.grid(axis="x", color="#E6E6E6", linewidth=0.8)
    axes[-1].set_xlabel("time in µs")
    axes[-1].xaxis.set_major_locator(MaxNLocator(10))
    axes[-1].xaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))
    return figure, axes


def _head(figure: Figure, program: Program, target: Target, handles: list[Any]) -> None:
    height = figure.get_figheight()
    figure.text(
        0.062, 1 - 0.32 / height, f"{program.name} on {target.name}", fontsize=16, fontweight="bold", va="center"
    )
    size = f"{_number(program.num_instructions)} instructions, {_number(program.num_buffers)} buffers, "
    size += f"{_number(target.fast_bytes / MIB)} MiB of fast memory"
    figure.text(0.982, 1 - 0.32 / height, size, fontsize=10, ha="right", va="center", color="#555555")
    if handles:
        figure.legend(
            handles=handles,
            loc="center left",
            bbox_to_anchor=(0.062, 1 - 0.66 / height),
            ncols=len(handles),
            frameon=False,
            borderaxespad=0,
            borderpad=0,
            handlelength=1.8,
            columnspacing=1.6,
        )


def _draw_memory(axis: Axes, program: Program, target: Target, run: _Run) -> None:
    edges = run.edges_us
    axis.set_ylim(0, target.fast_bytes / MIB)
    axis.set_ylabel("fast memory, MiB")
    buffer, start, end, offset, low, high = run.mapping.residencies.T
    left, right = edges[start], edges[end + 1]
    bottom, top = (offset + low) / MIB, (offset + high) / MIB
    kind = _category(program)[buffer]
    thin = 0.15 if len(buffer) > 1000 else 0.5
    for number, (_, colour) in enumerate(CATEGORIES):
        rows = kind == number
        _rectangles(
            axis, left[rows], right[rows], bottom[rows], top[rows], facecolor=colour, edgecolor="white", lw=thin
        )
    for direction, colour, hatch in zip(
        (PREFETCH, WRITE_BACK), (PREFETCH_COLOUR, WRITE_BACK_COLOUR), _HATCHES, strict=True
    ):
        boxes = _in_flight(run, direction)
        _rectangles(axis, *boxes, facecolor="none", edgecolor=colour, hatch=hatch, lw=0.0)
    busy = np.flatnonzero(program.reserved)
    height = program.reserved[busy] / MIB
    _rectangles(axis, edges[busy], edges[busy + 1], np.zeros(len(busy)), height, facecolor="#555555", lw=0.0)
    _mark_loops(axis, program, edges)
    _label(axis, program, run.mapping.residencies, edges)


def _in_flight(run: _Run, direction: int) -> tuple[NDArray[np.float64], ...]:
    """Returns left, right, bottom and top of what copies are filling or saving, in microseconds and MiB.

    A cross-program prefetch is none of these: in a steady execution the bytes are there from the start.
    """
    boxes = []
    rows_of: dict[int, list[list[int]]] = {}
    for row in run.mapping.residencies.tolist():
        rows_of.setdefault(row[0], []).append(row)
    for buffer, way, start, end, low, high, _, _ in run.mapping.copies.tolist():
        if way != direction:
            continue
        for _, first, last, offset, lowest, highest in rows_of.get(buffer, []):
            first, last = max(first, start + 1), min(last, end - 1)
            if first <= last and max(low, lowest) < min(high, highest):
                boxes.append((first, last + 1, offset + max(low, lowest), offset + min(high, highest)))
    table = np.array(boxes, np.int64).reshape(-1, 4)
    edges = run.edges_us
    return edges[table[:, 0]], edges[table[:, 1]], table[:, 2] / MIB, table[:, 3] / MIB


def _label(axis: Axes, program: Program, residencies: NDArray[np.int64], edges: NDArray[np.float64]) -> None:
    """Writes the names of the largest buffers into their rectangles, where they fit."""
    joined: dict[tuple[int, int, int], list[int]] = {}
    for buffer, start, end, offset, low, high in residencies.tolist():
        box = joined.setdefault((buffer, offset, end), [start, low, high])
        box[:] = [max(box[0], start), min(box[1], low), max(box[2], high)]
    boxes = []
    window = axis.get_xlim()
    for (buffer, offset, end), (start, low, high) in joined.items():
        left, right = np.clip((edges[start], edges[end + 1]), *window)
        corners = axis.transData.transform([(left, (offset + low) / MIB), (right, (offset + high) / MIB)])
        width, height = (corners[1] - corners[0]) * 72 / axis.figure.dpi  # in points
        boxes.append((width * height, width, height, (left + right) / 2, offset + (low + high) / 2, buffer))
    for _, width, height, middle, byte, buffer in sorted(boxes, reverse=True)[:MOST_LABELS]:
        fitting = _fit(program.buffer_names[buffer], f"{_number(program.size[buffer] / MIB)} MiB", width, height)
        if fitting is not None:
            text, size, upright = fitting
            style: dict[str, Any] = {"fontsize": size, "ha": "center", "va": "center", "path_effects": _HALO}
            axis.text(middle, byte / MIB, text, rotation=90 if upright else 0, **style)


def _fit(name: str, size: str, width: float, height: float) -> tuple[str, float, bool] | None:
    """Returns the fullest label that fits a box (in points), its font size, and whether it stands upright."""
    name = re.sub(r"_{2,}", ".", name)  # JAX spells the path of a parameter with many underscores
    short = name if len(name) <= 20 else "\u2026" + name[-19:]
    for text in (f"{name}\n{size}", f"{short}\n{size}", name, short):
        lines = text.split("\n")
        for points in (9.0, 8.0, 7.0):
            long, across = max(map(len, lines)) * points * 0.62 + 6, len(lines) * points * 1.25 + 3
            if long <= width and across <= height:
                return text, points, False
            if long <= height and across <= width:
                return text, points, True
    return None


def _draw_traffic(axis: Axes, target: Target, run: _Run) -> None:
    """Shows how busy HBM is: instructions and prefetches upward, write-backs downward."""
    line = run.timeline
    grid = np.linspace(*axis.get_xlim(), BINS + 1) / MICRO
    # Cumulative seconds of HBM time that instructions use: as simulated, first, and then leave the rest to copies.
    knots = np.stack([line.begin_s, line.begin_s + line.hbm_s], axis=1).ravel()
    done = np.cumsum(np.stack([np.zeros(len(line.hbm_s)), line.hbm_s], axis=1).ravel())
    busy = np.interp(grid, knots, done)
    copies = np.zeros((2, BINS + 1))
    work = (run.mapping.copies[:, 5] - run.mapping.copies[:, 4]) / target.hbm_bandwidth
    outward = run.mapping.copies[:, 1] == WRITE_BACK
    for copy in np.flatnonzero(line.copy_end_s > line.copy_begin_s):
        begin, end = line.copy_begin_s[copy], line.copy_end_s[copy]
        ends = np.array([begin, end])
        before, after = ends - np.interp(ends, knots, done)
        moved = (np.clip(grid, begin, end) - np.interp(np.clip(grid, begin, end), knots, done) - before) / max(
            after - before, 1e-15
        )
        copies[int(outward[copy])] += work[copy] * moved
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
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _number(abs(value))))
    handles = [
        Patch(color=INSTRUCTION_COLOUR, label="instructions"),
        Patch(color=PREFETCH_COLOUR, label="prefetches"),
        Patch(color=WRITE_BACK_COLOUR, label="write-backs (downward)"),
    ]
    _legend_above(axis, handles)


def _draw_pressure(axis: Axes, program: Program, target: Target, edges: NDArray[np.float64], runs: list[_Run]) -> None:
    """Shows the bytes between first and last access, by kind, against the capacity and what the mappings hold."""
    live = _live_bytes(program) / MIB
    base = np.zeros(program.num_instructions)
    handles: list[Any] = []
    for (name, colour), layer in zip(CATEGORIES, live, strict=True):
        axis.stairs(base + layer, edges, baseline=base, fill=True, color=colour)
        base = base + layer
        handles.append(Patch(color=colour, label=f"live, {name}"))
    for run, style in zip(runs, _LINES, strict=False):
        held = _held_bytes(program, run.mapping) / MIB
        axis.stairs(held, run.edges_us, baseline=None, color=INK, linewidth=1.2, linestyle=style)
        handles.append(Line2D([], [], color=INK, linewidth=1.2, linestyle=style, label=f"held by {run.name}"))
    axis.axhline(target.fast_bytes / MIB, color=WRITE_BACK_COLOUR, linewidth=1.2, linestyle="--")
    handles.append(Line2D([], [], color=WRITE_BACK_COLOUR, linewidth=1.2, linestyle="--", label="fast memory"))
    capacity, peak = target.fast_bytes / MIB, base.max(initial=0)
    axis.set_ylim(0, min(max(peak, capacity) * 1.06, capacity * PRESSURE_TIMES))
    if peak > capacity * PRESSURE_TIMES:
        axis.set_title(f"up to {_number(peak)} MiB", loc="left", fontsize=9, pad=5)
    axis.set_ylabel("live, MiB")
    _legend_above(axis, handles)


def _legend_above(axis: Axes, handles: list[Any]) -> None:
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


# ---- numbers ---------------------------------------------------------------------------------------------------------


def _category(program: Program) -> NDArray[np.int64]:
    """Returns `[N]` the number of each buffer's entry in `CATEGORIES`."""
    return np.where(program.definition < 0, 0, np.where(program.is_output, 2, 1))


def _live_bytes(program: Program) -> NDArray[np.float64]:
    """Returns `[3, T]` bytes of the buffers between their first and last access, by category."""
    first = np.full(program.num_buffers, program.num_instructions)
    last = np.full(program.num_buffers, -1)
    np.minimum.at(first, program.access_buffer, program.access_instruction)
    np.maximum.at(last, program.access_buffer, program.access_instruction)
    used = last >= 0
    change = np.zeros((3, program.num_instructions + 1))
    kind = _category(program)
    np.add.at(change, (kind[used], first[used]), program.size[used])
    np.add.at(change, (kind[used], last[used] + 1), -program.size[used])
    return np.cumsum(change, axis=1)[:, :-1]


def _held_bytes(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[T]` bytes of fast memory that residencies hold."""
    _, start, end, _, low, high = mapping.residencies.T
    change = np.zeros(program.num_instructions + 1)
    np.add.at(change, start, high - low)
    np.add.at(change, end + 1, low - high)
    return np.cumsum(change)[:-1]


def _rectangles(
    axis: Axes,
    left: NDArray[np.float64],
    right: NDArray[np.float64],
    bottom: NDArray[np.float64],
    top: NDArray[np.float64],
    **style: Any,
) -> None:
    corners = np.stack(
        [np.stack(p, axis=1) for p in ((left, bottom), (right, bottom), (right, top), (left, top))], axis=1
    )
    axis.add_collection(PolyCollection(list(corners), **style), autolim=False)


def _mark_loops(axis: Axes, program: Program, edges: NDArray[np.float64]) -> None:
    for trips, first, last in zip(program.loop_trips, program.loop_first, program.loop_last, strict=True):
        axis.axvspan(edges[first], edges[last + 1], color="#000000", alpha=0.05, linewidth=0)
        middle, top = (edges[first] + edges[last + 1]) / 2, axis.get_ylim()[1]
        axis.text(middle, top, f"loop, {_number(trips)} trips", ha="center", va="bottom", fontsize=9)


def _number(value: float) -> str:
    """Returns a number with at most three significant digits below 100, and with thousands apart."""
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
