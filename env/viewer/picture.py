"""Draws pictures of mappings: memory map, HBM traffic and live bytes, one above the other on one time axis.

The panels are in `memory_map.py`, `hbm_traffic.py` and `live_bytes.py`.
"""

import io
import os
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ..errors import UserError
from ..physics.cost import available_models
from ..physics.simulator import Timeline, simulate
from ..program.mapping import PREFETCH, WRITE_BACK, Mapping
from ..program.program import Program, all_hbm
from ..program.target import Target
from ..storage.atomic import write_atomically
from .hbm_traffic import draw_traffic
from .live_bytes import draw_live_bytes
from .memory_map import draw_memory
from .style import (
    CATEGORIES,
    HATCHES,
    INSTRUCTION_COLOUR,
    MIB,
    MICRO,
    PREFETCH_COLOUR,
    STYLE,
    WRITE_BACK_COLOUR,
    format_number,
    legend_above,
    panels,
)
from .timed_mapping import TimedMapping

SUFFIXES = (".png", ".svg")


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

    Time runs to the right, in microseconds. A loop body is drawn once. Rectangles are residencies, hatched while a
    prefetch fills them or a write-back saves them. Live bytes are drawn at the times of `mapping`.

    Args:
      program: the program.
      mapping: a mapping that `verify` accepts; None draws live bytes and the all-in-HBM time of each instruction.
      path: a `.png` or `.svg` file.
      target: the hardware, if not the program's own.
      timeline: simulation of `mapping`; None to run it.
      beside: a second mapping, drawn below.
      names: names of the two mappings, for titles.
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
            runs = [TimedMapping(names[0], mapping, timeline or simulate(program, target, mapping, model))]
            if beside is not None:
                runs.append(TimedMapping(names[1], beside, simulate(program, target, beside, model)))
            figure = _draw_runs(program, target, runs, model, window_us)
        data = io.BytesIO()
        figure.savefig(data, format=suffix[1:], dpi=150, metadata={"Date": None} if suffix == ".svg" else None)
    write_atomically(path, data.getvalue())


def _draw_runs(
    program: Program, target: Target, runs: list[TimedMapping], model: str, window_us: tuple[float, float] | None
) -> Figure:
    """Draws a memory map and the HBM traffic of each mapping, and the live bytes below."""
    heights = [4.6, 1.3] * len(runs) + [1.5]
    figure, axes = panels(heights)
    window_us = window_us or (0, max(run.edges_us[-1] for run in runs))
    for index, run in enumerate(runs):
        memory, traffic = axes[2 * index : 2 * index + 2]
        memory.set_xlim(*window_us)
        draw_memory(memory, program, target, run)
        draw_traffic(traffic, target, run)
        waits = f", {format_number(run.timeline.waited_s * MICRO)} µs of it waiting for copies"
        latency = f"{run.name}: {format_number(run.timeline.latency_s * MICRO)} µs"
        memory.set_title(
            f"{latency} ({model}, steady){waits}{_by_others(program, target, run.mapping, model)}",
            loc="left",
            fontsize=11,
            pad=7,
        )
    draw_live_bytes(axes[-1], program, target, runs[0].edges_us, runs)
    handles: list[Any] = [Patch(facecolor=colour, edgecolor="none", label=name) for name, colour in CATEGORIES]
    directions = {int(direction) for run in runs for direction in run.mapping.copies[:, 1]}
    if PREFETCH in directions:
        handles.append(
            Patch(facecolor="white", edgecolor=PREFETCH_COLOUR, hatch=HATCHES[0], label="prefetch in flight")
        )
    if WRITE_BACK in directions:
        handles.append(
            Patch(facecolor="white", edgecolor=WRITE_BACK_COLOUR, hatch=HATCHES[1], label="write-back in flight")
        )
    if program.reserved.any():
        handles.append(Patch(facecolor="#555555", edgecolor="none", label="reserved by an instruction"))
    _draw_head(figure, program, target, handles)
    return figure


def _by_others(program: Program, target: Target, mapping: Mapping, model: str) -> str:
    """Returns the words for a mapping's latency under the cost models that are not drawn."""
    others = [other for other in available_models(program) if other != model]
    seconds = {other: simulate(program, target, mapping, other).latency_s for other in others}
    return "".join(f"; {format_number(s * MICRO)} µs ({other})" for other, s in seconds.items())


def _draw_program(program: Program, target: Target, model: str, window_us: tuple[float, float] | None) -> Figure:
    """Draws a program without a mapping: live bytes, and the time of each instruction with everything in HBM."""
    run = TimedMapping("all in HBM", all_hbm(program), simulate(program, target, all_hbm(program), model))
    figure, (pressure, times) = panels([3.2, 3.2])
    pressure.set_xlim(*(window_us or (0, run.edges_us[-1])))
    draw_live_bytes(pressure, program, target, run.edges_us, [])
    edges, line = run.edges_us, run.timeline
    width = np.maximum(line.run_s * MICRO, 1e-9)
    memory = (line.hbm_s - np.minimum(line.hbm_s, line.compute_s)) * MICRO
    times.bar(edges[:-1], line.compute_s * MICRO, width, align="edge", color=INSTRUCTION_COLOUR, label="compute")
    bottom = line.compute_s * MICRO
    times.bar(edges[:-1], memory, width, bottom, align="edge", color=PREFETCH_COLOUR, label="waiting for HBM")
    times.set_ylabel("µs per instruction")
    legend_above(times, times.get_legend_handles_labels()[0])
    latency = f"everything in HBM: {format_number(line.latency_s * MICRO)} µs ({model})"
    pressure.set_title(latency, loc="left", fontsize=11, pad=7)
    _draw_head(figure, program, target, [])
    return figure


def _draw_head(figure: Figure, program: Program, target: Target, handles: list[Any]) -> None:
    """Writes names and sizes of program and target at the top, and the legend of the memory maps below them."""
    height = figure.get_figheight()
    figure.text(
        0.062, 1 - 0.32 / height, f"{program.name} on {target.name}", fontsize=16, fontweight="bold", va="center"
    )
    size = f"{format_number(program.num_instructions)} instructions, {format_number(program.num_buffers)} buffers, "
    size += f"{format_number(target.fast_bytes / MIB)} MiB of fast memory"
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
