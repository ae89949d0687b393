"""Draws the learning curves of runs: self-play, evaluations and best mapping over training time, with references.

    python -m benchmarks.results.learning_curve RUN_DIR [RUN_DIR ...] -o CURVE.png

Reads `metrics.jsonl` and, for the references, `evaluation.json` of each run directory.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

REFERENCES = {"random": ("#999999", ":"), "greedy": ("#E69F00", "--"), "production": ("#000000", "-.")}


def series(lines: list[dict[str, Any]], name: str) -> tuple[list[float], list[float]]:
    """Returns minutes and values of one metric."""
    points = [(line["minutes"], line[name]) for line in lines if line.get(name) is not None]
    return [x for x, _ in points], [y for _, y in points]


def draw_run(axes: Axes, folder: Path, program: str) -> None:
    """Draws the curves of one program of a run."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    axes.plot(*series(lines, f"episode/{program}/latency_us"), color="#56B4E9", lw=1, label="self-play games (mean)")
    for solver, colour, label in (
        ("muzero-policy", "#CC79A7", "agent, policy alone"),
        ("muzero-search", "#0072B2", "agent, with search"),
    ):
        axes.plot(*series(lines, f"evaluation/{program}/{solver}/latency_us"), "o-", ms=3, color=colour, label=label)
    axes.plot(*series(lines, f"best/{program}/latency_us"), color="#009E73", lw=2, label="best mapping so far")
    document = json.loads((folder / "evaluation.json").read_text())
    rows = document if isinstance(document, list) else document["evaluations"]
    for row in rows:
        if row["program"] == program and row["solver"] in REFERENCES:
            colour, style = REFERENCES[row["solver"]]
            label = "XLA's production mapping" if row["solver"] == "production" else row["solver"]
            axes.axhline(row["latency_us"], color=colour, ls=style, lw=1.5, label=label)
    axes.set_title(program)
    axes.set_xlabel("training time, minutes")
    axes.set_ylabel("simulated latency, µs (msa, steady)")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, framealpha=0.9)


def main() -> None:
    """Draws one panel per run and program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    panels = [
        (folder, path.name.removesuffix(".mapping.json.gz"))
        for folder in arguments.run_dir
        for path in sorted((folder / "best").glob("*.mapping.json.gz"))
    ]
    figure = Figure(figsize=(7 * len(panels), 5), layout="constrained")
    FigureCanvasAgg(figure)
    for axes, (folder, program) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw_run(axes, folder, program)
    figure.savefig(arguments.output, dpi=120)


if __name__ == "__main__":
    main()
