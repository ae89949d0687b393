"""Picture of docs/cost-models.md: instructions, kinds, flag settings and programs under both cost models."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mallocmuzero.env.viewer.style import STYLE

from .study import KINDS, Study, instruction_seconds


def draw(studies: Sequence[Study], path: Path) -> None:
    """Draws the four panels."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(14, 10), layout="constrained")
        FigureCanvasAgg(figure)
        (scatter, spread), (signs, losses) = figure.subplots(2, 2)
        _draw_instructions(scatter, studies)
        _draw_kinds(spread, studies)
        _draw_flags(signs, studies)
        _draw_losses(losses, studies)
        figure.savefig(path, dpi=120)


def _draw_instructions(scatter: Axes, studies: Sequence[Study]) -> None:
    for kind, colour in KINDS.items():
        msa, cycles = instruction_seconds(studies, kind)
        scatter.loglog(msa * 1e6, cycles * 1e6, ".", ms=3, alpha=0.5, color=colour, label=kind)
    ends = np.array(scatter.get_xlim())
    for factor, style in ((1, "-"), (2, "--")):
        scatter.plot(ends, factor * ends, style, color="#555555", lw=0.8, label=f"cycles = {factor} msa")
    scatter.set_xlabel("µs under msa")
    scatter.set_ylabel("µs under cycles")
    scatter.set_title("Every instruction under XLA's mapping", loc="left")
    scatter.legend(fontsize=8, frameon=False)


def _draw_kinds(spread: Axes, studies: Sequence[Study]) -> None:
    shown = [(k, np.divide(*reversed(instruction_seconds(studies, k)))) for k in reversed(KINDS)]
    shown = [(k, ratio) for k, ratio in shown if len(ratio)]
    spread.boxplot([np.log10(ratio) for _, ratio in shown], vert=False, whis=(5, 95), showfliers=False)
    spread.set_yticks(range(1, len(shown) + 1), [k for k, _ in shown])
    ticks = [0.1, 0.3, 1, 3, 10, 30, 100]
    spread.set_xticks(np.log10(ticks), [f"{tick:g}" for tick in ticks])
    spread.axvline(0, color="#555555", lw=0.8)
    spread.set_xlabel("cycles / msa, per instruction (box: quartiles, whiskers: 5 % and 95 %)")
    spread.set_title("How far apart, by kind of instruction", loc="left")


def _draw_flags(signs: Axes, studies: Sequence[Study]) -> None:
    for s in studies:
        if s.variants:
            signs.plot(
                *zip(*[(100 * (m - 1), 100 * (c - 1)) for m, c in s.variants], strict=True), "o", ms=4, alpha=0.7
            )
    signs.axhline(0, color="#555555", lw=0.8)
    signs.axvline(0, color="#555555", lw=0.8)
    signs.set_xlabel("change under msa, %")
    signs.set_ylabel("change in cycles, %")
    signs.set_title("XLA under other flags, against its default: off the diagonal the models disagree", loc="left")


def _draw_losses(losses: Axes, studies: Sequence[Study]) -> None:
    order = sorted(studies, key=lambda s: s.floor_cycles)
    places = np.arange(len(order))
    losses.barh(
        places, [100 * (1 - s.floor_cycles) for s in order], color="#BBD7EA", label="least of every instruction"
    )
    best = [100 * (1 - min((v[1] for v in s.variants), default=1.0)) for s in order]
    losses.barh(places, best, height=0.4, color="#0072B2", label="best of the flag grid")
    losses.set_yticks(places, [s.program.name for s in order], fontsize=7)
    losses.set_xlabel("cycles left on the table by XLA's default, %")
    losses.set_title("What XLA loses by optimising its own model", loc="left")
    losses.legend(fontsize=8, frameon=False)
