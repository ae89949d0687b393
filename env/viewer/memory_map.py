"""The memory map: residencies as rectangles of time and bytes, hatched while copies fill or save them."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

from ..program.mapping import PREFETCH, WRITE_BACK
from ..program.program import Program
from ..program.target import Target
from .live_bytes import category
from .style import CATEGORIES, HALO, HATCHES, MIB, PREFETCH_COLOUR, WRITE_BACK_COLOUR, format_number
from .timed_mapping import TimedMapping

MOST_LABELS = 60
# Hatches take long to draw: where more copies are in flight than could be told apart, their colour stands alone.
MOST_HATCHED = 5000


def draw_memory(axis: Axes, program: Program, target: Target, run: TimedMapping) -> None:
    """Draws residencies, copies in flight, reserved bytes and loops, and names the largest buffers."""
    edges = run.edges_us
    axis.set_ylim(0, target.fast_bytes / MIB)
    axis.set_ylabel("fast memory, MiB")
    buffer, start, end, offset, low, high = run.mapping.residencies.T
    left, right = edges[start], edges[end + 1]
    bottom, top = (offset + low) / MIB, (offset + high) / MIB
    kind = category(program)[buffer]
    thin = 0.15 if len(buffer) > 1000 else 0.5
    for number, (_, colour) in enumerate(CATEGORIES):
        rows = kind == number
        _rectangles(
            axis, left[rows], right[rows], bottom[rows], top[rows], facecolor=colour, edgecolor="white", lw=thin
        )
    for direction, colour, hatch in zip(
        (PREFETCH, WRITE_BACK), (PREFETCH_COLOUR, WRITE_BACK_COLOUR), HATCHES, strict=True
    ):
        boxes = _in_flight(run, direction)
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": hatch}
        if len(boxes[0]) > MOST_HATCHED:
            style = {"facecolor": colour, "alpha": 0.4}
        _rectangles(axis, *boxes, **style, lw=0.0)
    busy = np.flatnonzero(program.reserved)
    height = program.reserved[busy] / MIB
    _rectangles(axis, edges[busy], edges[busy + 1], np.zeros(len(busy)), height, facecolor="#555555", lw=0.0)
    _mark_loops(axis, program, edges)
    _label(axis, program, run.mapping.residencies, edges)


def _in_flight(run: TimedMapping, direction: int) -> tuple[NDArray[np.float64], ...]:
    """Returns left, right, bottom and top of the bytes in flight in one direction, in microseconds and MiB.

    Cross-program prefetches have no rectangle: in a steady execution the bytes are there from the start.
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
    """Writes the names of the largest buffers into their rectangles if they fit."""
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
        fitting = _fit(program.buffer_names[buffer], f"{format_number(program.size[buffer] / MIB)} MiB", width, height)
        if fitting is not None:
            text, size, upright = fitting
            style: dict[str, Any] = {"fontsize": size, "ha": "center", "va": "center", "path_effects": HALO}
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
    """Shades the time of each loop and writes its trip count above."""
    for trips, first, last in zip(program.loop_trips, program.loop_first, program.loop_last, strict=True):
        axis.axvspan(edges[first], edges[last + 1], color="#000000", alpha=0.05, linewidth=0)
        middle, top = (edges[first] + edges[last + 1]) / 2, axis.get_ylim()[1]
        axis.text(middle, top, f"loop, {format_number(trips)} trips", ha="center", va="bottom", fontsize=9)
