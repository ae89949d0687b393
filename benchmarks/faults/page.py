"""Renders docs/results/faults.md from docs/results/faults.jsonl and checkpointing.json.

    python -m benchmarks.faults.page

`python -m benchmarks.faults.measure` and `python -m benchmarks.faults.checkpointing` fill these files.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from .kinds import FAULTS

RESULTS = ROOT / "docs" / "results"
FAULT_RESULTS = RESULTS / "faults.jsonl"
CHECKPOINTING_RESULTS = RESULTS / "checkpointing.json"
PAGE = ROOT / "docs" / "results" / "faults.md"
MAKER = "benchmarks/faults/page.py"
_SAID_CHARACTERS = 110


def read(path: Path = FAULT_RESULTS) -> list[Record]:
    """Returns the records of faults by number. Raises SystemExit if a line is not a record."""
    return sorted((record for _, record in read_runs([path], lambda record: int(record["number"]))), key=_number)


def _number(record: Record) -> int:
    return int(record["number"])


def overview(records: Sequence[Record]) -> list[str]:
    """Returns the table of kinds of faults, and the sum of all."""
    lines = [
        "| fault | done | well again | by itself | by `--resume` | seconds, median | longest |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for kind, fault in FAULTS.items():
        done = [record for record in records if record["kind"] == kind]
        if not done:
            lines.append(f"| {fault.what} | 0 | | | | | |")
            continue
        itself, seconds = sum(record["by"] == "itself" for record in done), [record["seconds"] for record in done]
        lines.append(
            f"| {fault.what} | {len(done)} | {sum(record['well'] for record in done)} | {itself} | "
            f"{len(done) - itself} | {median(seconds):.0f} | {max(seconds):.0f} |"
        )
    counts = {
        "not well again": sum(not record["well"] for record in records),
        "best mappings lost": sum(record["best_lost"] for record in records),
        "processes left behind": sum(len(record["left_behind"]) for record in records),
        "counters gone back or metrics written twice": len({line for r in records for line in r["broken_promises"]}),
        "tracebacks shown to the user": sum(record["traceback"] for record in records),
        "not a word in the log or on the terminal where one belongs": sum(
            bool(FAULTS[record["kind"]].needs) and record["said"] is None for record in records
        ),
    }
    total = "; ".join(f"{name}: {count}" for name, count in counts.items())
    return [*lines, "", f"{len(records)} faults. {total[0].upper()}{total[1:]}."]


def said(records: Sequence[Record]) -> list[str]:
    """Returns the table of messages to the user by kind of fault, the last of each."""
    lines = ["| fault | what is said |", "|---|---|"]
    for kind, fault in FAULTS.items():
        words = [record["said"] for record in records if record["kind"] == kind and record["said"]]
        if words:
            text = words[-1].replace("|", "\\|").replace("`", "'")
            text = text if len(text) <= _SAID_CHARACTERS else f"{text[:_SAID_CHARACTERS]} ..."
            lines.append(f"| {fault.what} | `{text}` |")
    return lines


def checkpointing(path: Path = CHECKPOINTING_RESULTS) -> list[str]:
    """Returns the table of the stops that checkpoints make."""
    lines = [
        "| topology | segments in the replay | MiB | written in, s | longest `append` otherwise, s | **stop, s** |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    return lines + [
        f"| `{run['topology']}` | {run['segments']:,} | {run['mib']} | {run['write_s']} | "
        f"{run['usual_s'] if run['topology'] == 'ray' else ''} | **{run['stop_s']}** |"
        for run in json.loads(path.read_text(encoding="utf-8"))
    ]


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its tables replaced. Raises SystemExit if the page has no place for a table."""
    tables = {"faults": overview(records), "said": said(records)}
    if CHECKPOINTING_RESULTS.exists():
        tables["checkpointing"] = checkpointing()
    return fill_marks(page, tables.items(), MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    records = read()
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8"), records), encoding="utf-8")
    print(f"wrote {PAGE}: {len(records)} faults")


if __name__ == "__main__":
    main()
