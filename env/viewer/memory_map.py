"""The memory map: residencies as rectangles of time and bytes, hatched while copies fill or save them."""

import re
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from numpy.typing import NDArray

from ..program.extents import extents
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
    residencies = extents(program, run.mapping.residencies)
    buffer, start, end, offset, low, high = residencies.T
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
        boxes = _in_flight(run, residencies, direction)
        style: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "hatch": hatch}
        if len(boxes[0]) > MOST_HATCHED:
            style = {"facecolor": colour, "alpha": 0.4}
        _rectangles(axis, *boxes, **style, lw=0.0)
    busy = np.flatnonzero(program.reserved)
    height = program.reserved[busy] / MIB
    _rectangles(axis, edges[busy], edges[busy + 1], np.zeros(len(busy)), height, facecolor="#555555", lw=0.0)
    _mark_loops(axis, program, edges)
    _label(axis, program, residencies, edges)


def _in_flight(run: TimedMapping, residencies: NDArray[np.int64], direction: int) -> tuple[NDArray[np.float64], ...]:
    """Returns left, right, bottom and top of the bytes in flight in one direction, in microseconds and MiB.

    Cross-program prefetches have no rectangle: in a steady execution the bytes are there from the start.
    """
    boxes = []
    rows_of: dict[int, list[list[int]]] = {}
    for row in residencies.tolist():
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
    # Pieces of one buffer at one offset that end together are one box, from where the last of them begins.
    buffer, start, end, offset, low, high = residencies.T
    _, box = np.unique(np.stack([buffer, offset, end], axis=1), axis=0, return_inverse=True)
    box, one = box.ravel(), np.unique(box, return_index=True)[1]
    buffer, end, offset = buffer[one], end[one], offset[one]
    last, lowest, highest = start[one].copy(), low[one].copy(), high[one].copy()
    np.maximum.at(last, box, start)
    np.minimum.at(lowest, box, low)
    np.maximum.at(highest, box, high)
    left, right = np.clip(edges[last], *axis.get_xlim()), np.clip(edges[end + 1], *axis.get_xlim())
    corners = [
        axis.transData.transform(np.stack([x, y / MIB], axis=1))
        for x, y in ((left, offset + lowest), (right, offset + highest))
    ]
    width, height = ((corners[1] - corners[0]) * 72 / axis.figure.dpi).T  # in points
    middles = (left + right) / 2, offset + (lowest + highest) / 2
    largest = np.lexsort((buffer, middles[1], middles[0], height, width, width * height))[::-1][:MOST_LABELS]
    boxes = zip(*(column[largest].tolist() for column in (width, height, *middles, buffer)), strict=True)
    for across, up, middle, byte, number in boxes:
        fitting = _fit(program.buffer_names[number], f"{format_number(program.size[number] / MIB)} MiB", across, up)
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
    """Shades the time of each loop, conditional and branch; labels conditionals, and loops with their trip counts."""
    spans = zip(program.loop_kinds, program.loop_trips, program.loop_first, program.loop_last, strict=True)
    for kind, trips, first, last in spans:
        axis.axvspan(edges[first], edges[last + 1], color="#000000", alpha=0.05, linewidth=0)
        middle, top = (edges[first] + edges[last + 1]) / 2, axis.get_ylim()[1]
        words = {"loop": f"loop, {format_number(trips)} trips", "conditional": "conditional"}.get(kind)
        if words is not None:
            axis.text(middle, top, words, ha="center", va="bottom", fontsize=9)
