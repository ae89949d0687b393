"""Replays XLA's own mappings in mallocGame and measures the loss, by reason.

    python -m benchmarks.representability.measure [WORKLOAD ...] [--again]

Follows each production mapping four times: every buffer a decision and its offsets named; the same with hints at the
times of its copies; its offsets named and trivial buffers left to the game; the offsets left to the game. Writes
docs/results/representability.json and the table of docs/results/representability.md. Programs that the file has,
unchanged, are left alone.
"""

import argparse
import json
from typing import Any

from rich.progress import track

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.holding import per_pass_of
from mallocmuzero.env.game.replay_mapping import LOST, follow, report
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.verifier.verify import check
from mallocmuzero.env.workloads import PROGRAMS_FOLDER, load
from mallocmuzero.solvers.common.follow import hints_of_mapping

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks

RESULTS, PAGE = ROOT / "docs/results/representability.json", ROOT / "docs/results/representability.md"
# Name of the line of play, settings of its game, whether it names offsets, whether the game hints at times of copies.
LINES: tuple[tuple[str, dict[str, float], bool, bool], ...] = (
    ("every", {"trivial_share": 0.0}, True, False),
    ("timed", {"trivial_share": 0.0}, True, True),
    ("named", {}, True, False),
    ("own", {}, False, False),
)


def measure(program: Program) -> dict[str, Any]:
    """Returns the reports of the lines of play that follow the production mapping."""
    assert program.production is not None
    entry: dict[str, Any] = {"sha256": program.sha256, "loops": len(program.loop_trips)}
    per_pass = per_pass_of(program, program.production)
    for key, settings, name_offsets, timed in LINES:
        hints = hints_of_mapping(program, program.production) if timed else None
        game = MallocGame(program, objective="msa", hints=hints, per_pass=per_pass, **settings)  # type: ignore[arg-type]
        line = follow(game, program.production, name_offsets)
        check(program, game.target, line.mapping)
        entry[key] = report(line, game)
    return entry


def change(entry: dict[str, Any], key: str, model: str) -> float | None:
    """Returns the slowdown of a line of play against the mapping that it follows, or None without that cost model."""
    seconds = entry[key]["latency_s"].get(model)
    return None if seconds is None else seconds["line"] / seconds["mapping"] - 1.0


def best(entry: dict[str, Any]) -> float:
    """Returns the slowdown of the best line of play under `msa`."""
    return min(change(entry, key, "msa") or 0.0 for key, *_ in LINES)


def table(entries: dict[str, Any]) -> list[str]:
    """Returns the table of the page, the worst replay first."""
    heads = [
        "program",
        "decisions",
        "XLA, us",
        "best line",
        "every buffer",
        "XLA's times",
        "trivial by rule",
        "own offsets",
        "cycles",
        "cycles, XLA's times",
        "bytes alike",
    ]
    heads += [*LOST, "slices"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, entry in sorted(entries.items(), key=lambda item: -best(item[1])):
        line = entry["every"]
        lost = [line["lost"].get(reason) for reason in LOST]
        columns = (
            *((key, "msa") for key, *_ in LINES),
            ("every", "cycles"),
            ("timed", "cycles"),
        )
        cells = [
            name,
            f"{line['decisions']}",
            f"{line['latency_s']['msa']['mapping'] * 1e6:,.1f}",
            _percent(best(entry)),
            *(_percent(change(entry, *column)) for column in columns),
            f"{line['bytes_alike']:.1%}",
            *("" if cell is None else f"{cell['accesses']} ({cell['benefit_s'] * 1e6:,.1f})" for cell in lost),
            f"{line['features']['slices'] or ''}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.2%}"


def main() -> None:
    """Measures the programs that the file lacks, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names or files; all committed programs without any")
    parser.add_argument("--again", action="store_true", help="measure also the programs that the file has")
    arguments = parser.parse_args()
    entries: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = [path.name.removesuffix(".json.gz") for path in sorted(PROGRAMS_FOLDER.glob("*.json.gz"))]
    if not arguments.workload:
        entries = {name: entry for name, entry in entries.items() if name in known}
    for name in track(arguments.workload or known):
        program = load(name)
        if program.production is None:
            continue
        held = entries.get(program.name)
        if held is not None and held["sha256"] == program.sha256 and not arguments.again:
            continue
        entries[program.name] = measure(program)
        write_atomically(RESULTS, (json.dumps(entries, indent=1, sort_keys=True) + "\n").encode())
    tables = [("table", table(entries))]
    page = fill_marks(PAGE.read_text(encoding="utf-8"), tables, "benchmarks/representability/measure.py", PAGE)
    write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    main()
