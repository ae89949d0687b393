"""Writes the tables and the picture of docs/corpus.md: `python -m benchmarks.corpus.page`.

Rows come from docs/results/corpus.jsonl (`python -m benchmarks.corpus.measure`), kinds and reasons from the manifest.
"""

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from mallocmuzero.env import workloads
from mallocmuzero.env.workloads.corpus.manifest import read_manifest
from mallocmuzero.env.workloads.models.generated.drawing import draw

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from .measure import read

PAGE = ROOT / "docs" / "corpus.md"
PICTURE = ROOT / "docs" / "results" / "corpus.png"
MAKER = "benchmarks/corpus/page.py"
CONTENDED = 0.99
COLOURS = {"corpus": "#bbbbbb", "train": "#4477aa", "validation": "#228833", "heldout": "#cc6677"}


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows = current_rows()
    draw_picture(rows)
    tables = [("summary", summary(rows)), ("likeness", likeness(rows)), ("kinds", kinds()), ("left-out", left_out())]
    PAGE.write_text(fill_marks(PAGE.read_text(encoding="utf-8"), tables, MAKER, PAGE), encoding="utf-8")
    print(f"wrote {PAGE} and {PICTURE}: {len(rows)} programs")


def current_rows() -> list[Record]:
    """Returns the newest row of every program as it is now."""
    newest = {record["program"]: record for record in read().values()}
    return [row for name, row in newest.items() if workloads.workload(name).sha256 == row["program_sha256"]]


def summary(rows: list[Record]) -> list[str]:
    """Returns the corpus in a few lines."""
    names = workloads.corpus_names()
    sizes = sorted(workloads.workload(name).path.stat().st_size for name in names)
    kept = [row for row in rows if row["split"] == workloads.CORPUS]
    contended = sum(row["found"] < CONTENDED for row in kept)
    return [
        f"{len(names)} programs, {len(workloads.corpus_names('validation'))} of them for validation; "
        f"{sum(sizes) / 2**20:.1f} MiB in all, {sizes[len(sizes) // 2] / 2**10:.0f} KiB the middle one, "
        f"{sizes[-1] / 2**10:.0f} KiB the largest. "
        f"{sum(entry['cycles'] for entry in read_manifest().programs.values())} have a cycle table.",
        f"On {contended} of {len(kept)} that were searched, {_seconds(kept)} of annealing finds at least 1 % below "
        "production under `msa`.",
    ]


def _seconds(rows: list[Record]) -> str:
    return " or ".join(sorted({f"{row['seconds']:g} s" for row in rows}))


def likeness(rows: list[Record]) -> list[str]:
    """Returns the table that compares the corpus with the splits of the benchmark: tenth, half and nine tenths."""
    figures: list[tuple[str, Callable[[Record], float], str]] = [
        ("accesses", lambda row: row["accesses"], ",.0f"),
        ("instructions", lambda row: row["instructions"], ",.0f"),
        ("pressure", lambda row: row["pressure"], ".2f"),
        ("production, us", lambda row: 1e6 * row["production_s"], ",.0f"),
        ("room found, %", lambda row: 100 * (1 - row["found"]), ".1f"),
        ("room to the floor, %", lambda row: 100 * (1 - row["floor"]), ".1f"),
    ]
    splits = (workloads.CORPUS, "heldout", "validation", "train")
    lines = [
        "10 %, 50 % and 90 % of the programs have less than so much. Room: how far annealing comes below production "
        f"under `msa` in {_seconds(rows)} of processor time, and how far the floor is. Contended: room of 1 % or more.",
        "",
        "| | " + " | ".join(splits) + " |",
        "|---|" + "---:|" * len(splits),
        "| programs | " + " | ".join(str(len(_of(rows, split))) for split in splits) + " |",
    ]
    for name, figure, form in figures:
        cells = [_quantiles([figure(row) for row in _of(rows, split)], form) for split in splits]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    contended = [_share(row["found"] < CONTENDED for row in _of(rows, split)) for split in splits]
    looping = [_share(row["loops"] > 0 for row in _of(rows, split)) for split in splits]
    lines += ["| contended | " + " | ".join(contended) + " |", "| with loops | " + " | ".join(looping) + " |"]
    return [*lines, "", "![pressure, accesses and room of every program](results/corpus.png)"]


def _of(rows: list[Record], split: str) -> list[Record]:
    return [row for row in rows if row["split"] == split]


def _quantiles(values: list[float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in np.quantile(values, (0.1, 0.5, 0.9))) if values else "-"


def _share(found: Iterable[bool]) -> str:
    values = list(found)
    return f"{100 * sum(values) / len(values):.0f} %" if values else "-"


def kinds() -> list[str]:
    """Returns the table of kinds of networks, with targets, and lines about steps and types."""
    entries = list(read_manifest().programs.values())
    targets = sorted({entry["target"] for entry in entries})
    lines = ["| kind | programs | " + " | ".join(targets) + " |", "|---|---:|" + "---:|" * len(targets)]
    for kind, number in Counter(entry["kind"] for entry in entries).most_common():
        per_target = Counter(entry["target"] for entry in entries if entry["kind"] == kind)
        lines.append(f"| {kind} | {number} | " + " | ".join(str(per_target[target]) for target in targets) + " |")
    drawn = [draw(entry["seed"]) for entry in entries]
    extras: list[tuple[str, Iterable[Any]]] = [
        ("Steps", (one.step for one in drawn)),
        ("Optimisers", (one.optimiser for one in drawn if one.optimiser)),
        ("Types", (one.dtype for one in drawn)),
        ("Loops over", (one.loop for one in drawn if one.loop)),
    ]
    lines.append("")
    for name, values in extras:
        counts = ", ".join(f"{value} {number}" for value, number in Counter(values).most_common())
        lines.append(f"{name}: {counts or 'none'}.")
    lines.append(f"Rematerialised: {sum(one.rematerialised for one in drawn)}.")
    return lines


def left_out() -> list[str]:
    """Returns the table of reasons for which seeds gave no program."""
    reasons: Counter[str] = Counter()
    for entry in read_manifest().left_out.values():
        if entry["final"]:
            (figure,) = [name for name in ("accesses", "pressure", "file") if name in entry["reason"]]
            reasons[f"not wanted: {figure} outside the limits"] += 1
            continue
        reason = re.sub(r"\(\d+\)|models\.generated:seed_\d+: ", "", entry["reason"])
        reasons[re.sub(r"\d[\d.]*", "N", reason).partition(";")[0].partition(",")[0].strip()] += 1
    lines = ["| reason | seeds |", "|---|---:|"]
    return [*lines, *(f"| {reason} | {number} |" for reason, number in reasons.most_common())]


def draw_picture(rows: list[Record]) -> None:
    """Draws every program: accesses against pressure, and room against pressure."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    for split, colour in COLOURS.items():
        chosen = _of(rows, split)
        pressure = [row["pressure"] for row in chosen]
        size = 14 if split == workloads.CORPUS else 34
        axes[0].scatter(pressure, [row["accesses"] for row in chosen], size, colour, label=split)
        axes[1].scatter(pressure, [100 * (1 - row["found"]) for row in chosen], size, colour)
    for axis, name in zip(axes, ("accesses", f"room that {_seconds(rows)} of annealing finds, %"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("peak live bytes / fast memory")
        axis.set_ylabel(name)
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
