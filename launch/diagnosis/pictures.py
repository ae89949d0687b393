"""The pictures of a diagnosis, explained in docs/diagnosis.md."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...actors.diagnosis.changes import HELPS, Change, Tried
from ...actors.diagnosis.diagnose import Diagnosis, LineFigures
from ...actors.diagnosis.policy import entropies
from ...actors.diagnosis.trace import GREEDY, POLICY, PRODUCTION, RUN
from ...env.storage.atomic import write_atomically
from ...env.viewer.style import INPUT, INTERMEDIATE, OUTPUT, PREFETCH_COLOUR, STYLE, WRITE_BACK_COLOUR

_COLOURS = {PRODUCTION: PREFETCH_COLOUR, GREEDY: OUTPUT, RUN: INTERMEDIATE, POLICY: WRITE_BACK_COLOUR}
_WORDS = {PRODUCTION: "following XLA", GREEDY: "greedy", RUN: "best of the run", POLICY: "the policy's own game"}
_GREY = "#9A9A9A"
_POINTS = 3000
_BARS = 16
_DEPTH_PANELS = (
    ("reward_error", "error of the reward"),
    ("value_error", "error of the value"),
    ("backup_error", "error of rewards and value, backed up"),
    ("policy_kl", "divergence of the policy (nats)"),
    ("illegal_mass", "policy on illegal moves"),
    ("cosine", "cosine, imagined and seen latent state"),
)


def draw(diagnosis: Diagnosis, folder: Path) -> list[Path]:
    """Draws at most four pictures of a diagnosis into a folder; returns their paths.

    Raises:
      UserError: they cannot be written.
    """
    pictures: dict[str, Callable[[Diagnosis], Figure]] = {"depth": _depth, "value": _value, "policy": _policy}
    if diagnosis.changes is not None and diagnosis.changes.alternatives:
        pictures["changes"] = _changes
    written = []
    for name, draw_one in pictures.items():
        path = folder / f"{diagnosis.program.name}-{name}.png"
        with matplotlib.rc_context(STYLE):
            data = io.BytesIO()
            draw_one(diagnosis).savefig(data, format="png", dpi=110)
        write_atomically(path, data.getvalue())
        written.append(path)
    return written


def _figure(diagnosis: Diagnosis, title: str, rows: int, columns: int, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(max(13.0, 4.5 * columns), height), facecolor="white", layout="constrained")
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel().tolist()
    figure.suptitle(f"{diagnosis.program.name}: {title}", x=0.01, ha="left", fontsize=14, fontweight="bold")
    for axis in axes:
        axis.grid(color="#E6E6E6", linewidth=0.8)
        axis.set_axisbelow(True)
    return figure, axes


def _depth(diagnosis: Diagnosis) -> Figure:
    title = "the model against the game, by imagined steps (rewards and values in units of return)"
    figure, axes = _figure(diagnosis, title, 2, 3, 7.0)
    for axis, (name, words) in zip(axes, _DEPTH_PANELS, strict=True):
        for line in diagnosis.lines:
            colour, depths = _COLOURS[line.trace.name], line.model.depths
            found = [(d.depth, getattr(d, name)) for d in depths if getattr(d, name) is not None]
            axis.plot(*_columns(found), color=colour, marker="o", markersize=3.5, label=_WORDS[line.trace.name])
            if name == "value_error":
                seen = [(d.depth, d.seen_value_error) for d in depths if d.seen_value_error is not None]
                axis.plot(*_columns(seen), color=colour, linestyle="--", linewidth=1.2)
                axis.axhline(line.model.constant_value_error, color=colour, linestyle=":", linewidth=1.2)
            if name == "reward_error":
                axis.axhline(line.model.constant_reward_error, color=colour, linestyle=":", linewidth=1.2)
        axis.set_title(words, loc="left", fontsize=11)
        axis.set_xlim(-0.3, diagnosis.horizon + 0.3)
        if name == "cosine":
            axis.set_ylim(top=1.02)
        else:
            axis.set_ylim(bottom=0.0)
    for axis in axes[3:]:
        axis.set_xlabel("imagined steps")
    handles, labels = axes[0].get_legend_handles_labels()
    style: Any = {"color": "#444444", "linewidth": 1.2}
    handles += axes[0].plot([], [], linestyle="--", **style) + axes[0].plot([], [], linestyle=":", **style)
    labels += ["value of the real observation", "best constant"]
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    return figure


def _value(diagnosis: Diagnosis) -> Figure:
    unit_us = diagnosis.scale.unit_s * 1e6
    title = f"predicted value against true return (1 unit is {unit_us:,.3g} µs)"
    figure, axes = _figure(diagnosis, title, 1, len(diagnosis.lines), 4.9)
    for axis, line in zip(axes, diagnosis.lines, strict=True):
        predicted, true = line.heads.value, line.trace.value
        shown = np.linspace(0, len(true) - 1, min(len(true), _POINTS)).astype(int)
        late = axis.scatter(
            predicted[shown],
            true[shown],
            s=9 if len(shown) > 200 else 24,
            c=shown / max(1, len(true) - 1),
            cmap="viridis",
            alpha=0.5,
            linewidths=0,
        )
        low, high = min(predicted.min(), true.min()), max(predicted.max(), true.max())
        axis.plot([low, high], [low, high], color=_GREY, linewidth=1.0, linestyle="--")
        bins = line.value.bins
        axis.errorbar(
            [b.predicted for b in bins],
            [b.true for b in bins],
            yerr=[b.spread for b in bins],
            color="#222222",
            fmt="o",
            markersize=4.5,
            linewidth=1.2,
            label="tenths of the decisions: mean, standard deviation",
        )
        slope, correlation = ("-" if f is None else f"{f:.2f}" for f in (line.value.slope, line.value.correlation))
        axis.set_title(
            f"{_WORDS[line.trace.name]}: slope {slope}, correlation {correlation},\n"
            f"mean error {line.value.mean_error:+.2f}, absolute {line.value.mean_abs_error:.2f}",
            loc="left",
            fontsize=11,
        )
        axis.set_xlabel("predicted")
    axes[0].set_ylabel("true discounted return")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", frameon=False)
    bar = figure.colorbar(late, ax=axes, pad=0.01, shrink=0.8)
    bar.set_label("place in the game")
    if bar.solids is not None:
        bar.solids.set_alpha(1.0)
    return figure


def _policy(diagnosis: Diagnosis) -> Figure:
    figure, axes = _figure(diagnosis, "entropy of the policy over the legal moves", 1, len(diagnosis.lines), 4.4)
    for axis, line in zip(axes, diagnosis.lines, strict=True):
        entropy, legal = entropies(line.heads.logits, line.trace.legal), line.trace.legal.sum(-1)
        edges = np.linspace(0.0, np.log(3.0) * 1.001, 23)
        parts = [entropy[legal == count] for count in (2, 3)]
        axis.hist(parts, edges, stacked=True, color=[INPUT, INTERMEDIATE], label=["2 legal moves", "3 legal moves"])
        for count, colour in ((2, PREFETCH_COLOUR), (3, WRITE_BACK_COLOUR)):
            axis.axvline(
                np.log(count), color=colour, linestyle="--", linewidth=1.2, label=f"log {count}: knows nothing"
            )
        axis.set_title(_policy_words(line), loc="left", fontsize=11)
        axis.set_xlabel("entropy (nats)")
    axes[0].set_ylabel("decisions")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower left", ncols=len(labels), frameon=False)
    return figure


def _policy_words(line: LineFigures) -> str:
    words = f"{_WORDS[line.trace.name]}: sure of {100 * line.policy.sure:.0f} % of moves"
    return words if line.trace.name == POLICY else f"{words},\nagrees with {100 * line.policy.agreement:.1f} %"


def _changes(diagnosis: Diagnosis) -> Figure:
    assert diagnosis.changes is not None and diagnosis.tried is not None  # noqa: PT018
    changes = diagnosis.changes
    title = "moves other than XLA's, and what each gains alone"
    figure, (left, right) = _figure(diagnosis, title, 1, 2, 5.6)
    agent, random = diagnosis.tried
    _scatter(left, random, _GREY, f"random: {_share(changes.random.helps_share)} of {changes.random.moves:,} help")
    _scatter(
        left,
        agent,
        WRITE_BACK_COLOUR,
        f"the agent's: {_share(changes.agent.helps_share)} of {changes.agent.moves:,} help",
    )
    left.axhline(0.0, color="#444444", linewidth=1.0)
    left.axvline(0.0, color="#444444", linewidth=1.0)
    left.set_yscale(**_symlog(np.concatenate([agent.gain_s, random.gain_s]) * 1e6))
    left.margins(y=0.08)
    left.set_xlabel("log-odds the agent gives the move against XLA's")
    left.set_ylabel("gain (µs), above 0 is faster")
    left.legend(loc="best", frameon=False, fontsize=9)
    felt = sorted((change for change in changes.changes if change.gain_us), key=lambda change: change.gain_us)
    # The largest losses and the largest gains, half of the bars each.
    shown = felt if len(felt) <= _BARS else [*felt[: _BARS // 2], *felt[-_BARS // 2 :]]
    colours = [OUTPUT if change.effect == HELPS else WRITE_BACK_COLOUR for change in shown]
    rows = np.arange(len(shown))
    right.barh(rows, [change.gain_us for change in shown], color=colours, height=0.7)
    right.set_yticks(rows, [_name(change) for change in shown], fontsize=8)
    right.set_ylim(-0.7, max(len(shown), 6) - 0.3)
    right.set_xscale(**_symlog(np.array([change.gain_us for change in shown])))
    right.axvline(0.0, color="#444444", linewidth=1.0)
    right.set_xlabel("gain (µs)")
    right.set_title(f"{len(felt):,} changes by the agent have an effect", loc="left", fontsize=11)
    return figure


def _scatter(axis: Axes, tried: Tried, colour: str, label: str) -> None:
    axis.scatter(tried.log_odds, tried.gain_s * 1e6, s=14, color=colour, alpha=0.6, linewidths=0, label=label)


def _symlog(gains_us: np.ndarray) -> dict[str, Any]:
    """Returns the settings of an axis that is logarithmic from a tenth of the median effect on."""
    effects = np.abs(gains_us[gains_us != 0.0])
    exponent = round(float(np.log10(np.median(effects)))) - 1 if effects.size else 0
    return {"value": "symlog", "linthresh": 10.0**exponent, "linscale": 0.6}


def _name(change: Change) -> str:
    name = change.buffer_name if len(change.buffer_name) <= 30 else f"…{change.buffer_name[-29:]}"
    return f"{change.instruction}: {name}, {change.line_does} → {change.agent_does}"


def _share(share: float | None) -> str:
    return "none" if share is None else f"{100 * share:.0f} %"


def _columns(pairs: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [depth for depth, _ in pairs], [figure for _, figure in pairs]
