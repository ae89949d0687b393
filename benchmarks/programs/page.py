"""Renders the table and the picture of all programs into docs/benchmark.md.

    python -m benchmarks.programs.page

Bounds come from `env/workloads/bounds.json` (`python -m benchmarks.bounds.measure`); latencies, decisions and floors
are computed from the committed programs.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from mallocmuzero.env import workloads
from mallocmuzero.env.capture.printed_estimate import TOLERANCE
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.launch.commands.workloads import describe, headroom

from ..common.marked_page import fill_marks
from ..round_trip.records import LONG

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "benchmark.md"
PICTURE = DOCS / "results" / "benchmark.png"
MODELS = ("msa", "cycles")
COLOURS = {"train": "#4477aa", "validation": "#228833", "heldout": "#cc6677", "control": "#888888"}


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    entries = [describe(workloads.load(name), workloads.split(name)) for name in workloads.names()]
    for entry in entries:
        entry["description"] = workloads.workload(entry["name"]).description
        entry["compiler"] = workloads.load(entry["name"]).compiler
    entries.sort(key=lambda entry: (_room(entry) is None, -(_room(entry) or 0.0)))
    draw(entries)
    page = PAGE.read_text(encoding="utf-8")
    tables = [
        ("summary", summary(entries)),
        ("programs", programs(entries)),
        ("splits", splits(entries)),
        ("kinds", kinds(entries)),
        ("exceptions", exceptions(entries)),
    ]
    page = fill_marks(page, tables, "benchmarks/programs/page.py", PAGE)
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE} and {PICTURE}: {len(entries)} programs")


def _room(entry: dict[str, Any]) -> float | None:
    """Returns the headroom under `robust`, or under `msa` for a program that has no other model."""
    room = headroom(entry)
    return headroom(entry, "msa") if room is None else room


def programs(entries: list[dict[str, Any]]) -> list[str]:
    """Returns the table of all programs, most headroom first."""
    lines = [
        "| program | split | target | loops | chips | instr. | accesses | decisions | near "
        "| production, us | tuned | bound | best known "
        "| production, us | tuned | bound | best known | tuned | bound | best known | headroom |",
        "|---|---|---|" + "---:|" * 18,
        "| | | | | | | | | | **msa** | | | | **cycles** | | | | **robust** | | | |",
    ]
    for entry in entries:
        cells = [f"`{entry['name']}`", entry["split"], entry["target"], f"{entry['loops'] or ''}"]
        cells += [f"{entry['chips'] if entry['chips'] > 1 else ''}", f"{entry['instructions']}"]
        cells += [f"{entry['accesses']}", f"{entry['decisions']}", _percent(entry["fast_share"], 0)]
        for model in MODELS:
            latency = entry["latency_us"][model]
            production = latency["production"]
            cells.append("-" if production is None else f"{production:,.1f}")
            cells += [_share(latency[key], production) for key in ("production_tuned", "bound", "best_known")]
            if latency["bound_proved"]:
                cells[-2] += "*"
        robust = entry["robust"]
        cells += [_percent(robust[key]) for key in ("production_tuned", "bound", "best_known")]
        if robust["bound_proved"]:
            cells[-2] += "*"
        lines.append("| " + " | ".join([*cells, _percent(headroom(entry))]) + " |")
    return lines


def splits(entries: list[dict[str, Any]]) -> list[str]:
    """Returns the table of splits, with their families and numbers of programs."""
    lines = ["| split | families | programs |", "|---|---|---:|"]
    for split in workloads.SPLITS:
        members = [entry for entry in entries if entry["split"] == split]
        families = sorted({entry["family"] for entry in members})
        lines.append(f"| `{split}` | {', '.join(families)} | {len(members)} |")
    return lines


def kinds(entries: list[dict[str, Any]]) -> list[str]:
    """Returns the table of kinds of programs: with loops, with Pallas kernels, on several chips, of many accesses."""
    chosen: dict[str, list[dict[str, Any]]] = {
        "with loops": [entry for entry in entries if entry["loops"]],
        "with Pallas kernels": [entry for entry in entries if entry["compiler"].get("kernels")],
        "on several chips": [entry for entry in entries if entry["chips"] > 1],
        f"of more than {LONG:,} accesses": [entry for entry in entries if entry["accesses"] > LONG],
        "all": entries,
    }
    targets = [target for target in GENERATIONS if any(entry["target"] == target for entry in entries)]
    lines = ["| programs | " + " | ".join(targets) + " | all | training steps | heldout | with `cycles` |"]
    lines.append("|---|" + "---:|" * (len(targets) + 4))
    for kind, members in chosen.items():
        numbers = [sum(entry["target"] == target for entry in members) for target in targets]
        numbers += [len(members), sum("training step" in entry["description"] for entry in members)]
        numbers += [sum(entry["split"] == "heldout" for entry in members)]
        numbers += [sum(entry["latency_us"]["cycles"]["production"] is not None for entry in members)]
        lines.append(f"| {kind} | {' | '.join(map(str, numbers))} |")
    return lines


def exceptions(entries: list[dict[str, Any]]) -> list[str]:
    """Returns a list of exceptions: mappings that do not read back, models that are not captured."""
    lines = []
    for entry in entries:
        if entry["latency_us"]["msa"]["production"] is None or entry["compiler"]["inexpressible"]:
            reasons = "; ".join(f"{why} ({count})" for why, count in entry["compiler"]["inexpressible"].items())
            lines.append(f"- `{entry['name']}`: XLA's mapping does not read back: {reasons}.")
        off = list(entry["compiler"].get("estimates_off", {}).values())
        if any(share is None or abs(share) > TOLERANCE for share in off):
            told = ", ".join("not emulated" if share is None else f"{share:+.2%}" for share in off)
            lines.append(f"- `{entry['name']}`: the compiler's printed estimates do not come out ({told}).")
    lines = lines or [f"- XLA's mapping reads back on all {len(entries)} programs, and its printed estimates come out."]
    names = {entry["name"] for entry in entries}
    absent = [workloads.workload(name) for name in workloads.all_names() if name not in names]
    lines += [f"- `{entry.name}` is not captured: {entry.left_out}." for entry in absent if entry.left_out]
    rest = [f"`{entry.name}`" for entry in absent if not entry.left_out]
    if rest:
        lines.append(f"- Not captured yet, though the manifest has them: {', '.join(rest)}.")
    return lines


def summary(entries: list[dict[str, Any]]) -> list[str]:
    """Returns a summary of the table in a few lines."""
    training = sum("training step" in entry["description"] for entry in entries)
    families = {entry["family"] for entry in entries}
    targets = [target for target in GENERATIONS if any(entry["target"] == target for entry in entries)]
    lines = [f"{len(entries)} programs, {len(families)} families, {training} training steps; {', '.join(targets)}."]
    for objective in ("msa", "cycles", "robust"):
        headrooms = [headroom(entry, objective) for entry in entries]
        known = [value for value in headrooms if value is not None]
        if known:
            contended = sum(value >= 0.01 for value in known)
            mean = 100 * sum(known) / len(known)
            lines.append(
                f"Under `{objective}` the bound leaves at least 1 % below tuned production on {contended} of "
                f"{len(known)} programs, {mean:.1f} % on average and {100 * max(known):.1f} % at most."
            )
    return lines


def draw(entries: list[dict[str, Any]]) -> None:
    """Draws a row per program: production, tuned production, best known mapping, bound and floor."""
    figure, axes = plt.subplots(1, 2, figsize=(13, 0.235 * len(entries) + 1.6), sharey=True, layout="constrained")
    for axis, model in zip(axes, MODELS, strict=True):
        for row, entry in enumerate(entries):
            latency = entry["latency_us"][model]
            production = latency["production"]
            if not production:
                continue
            share = {key: 100 * latency[key] / production for key in latency if _is_number(latency[key])}
            bound = share.get("bound", share["floor"])
            axis.plot([bound, 100], [row, row], color=COLOURS[entry["split"]], lw=5, alpha=0.25, solid_capstyle="butt")
            axis.plot(share["floor"], row, "|", color="#aaaaaa", ms=8)
            axis.plot(bound, row, "|", color="black", ms=9, mew=2)
            axis.plot(100, row, "s", color="#dd8800", ms=4)
            if "production_tuned" in share:
                axis.plot(share["production_tuned"], row, "o", color="#dd8800", ms=5, mfc="white")
            if "best_known" in share:
                axis.plot(share["best_known"], row, "D", color="#117733", ms=4)
        axis.set_title(f"cost model {model}")
        axis.set_xlabel("% of XLA's default mapping")
        axis.set_xlim(left=max(0, axis.get_xlim()[0]), right=103)
        axis.grid(axis="x", alpha=0.3)
    axes[0].set_yticks(range(len(entries)), [entry["name"] for entry in entries], fontsize=8)
    for label, entry in zip(axes[0].get_yticklabels(), entries, strict=True):
        label.set_color(COLOURS[entry["split"]])
    axes[0].set_ylim(len(entries) - 0.4, -0.6)
    handles = [
        plt.Line2D([], [], marker="s", color="#dd8800", ls="", label="XLA's default"),
        plt.Line2D([], [], marker="o", color="#dd8800", mfc="white", ls="", label="best of eight flag settings"),
        plt.Line2D([], [], marker="D", color="#117733", ls="", label="best known mapping"),
        plt.Line2D([], [], marker="|", color="black", mew=2, ls="", label="lower bound"),
        plt.Line2D([], [], marker="|", color="#aaaaaa", ls="", label="floor: all near, copies free"),
        *(plt.Line2D([], [], color=colour, lw=5, alpha=0.5, label=split) for split, colour in COLOURS.items()),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(PICTURE, dpi=110)
    plt.close(figure)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _share(value: float | None, of: float | None) -> str:
    return _percent(value / of if value is not None and of else None)


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}"


if __name__ == "__main__":
    main()
