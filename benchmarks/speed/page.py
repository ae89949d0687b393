"""Writes the tables of docs/results/speed.md from the results of `against` and `ratios`.

python -m benchmarks.speed.page
"""

import argparse

from mallocmuzero.env.storage.atomic import write_atomically

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from . import against, ratios

PAGE = ROOT / "docs" / "results" / "speed.md"
MAKER = "benchmarks/speed/page.py"
# Row of the results -> least ratio asked for.
GOALS = {"actor": 0.7, "learner": 0.9, "Reverb,": 0.8}
_ORDER = (*GOALS, "LightZero")
# Table of the game -> commit that it is compared with, seven digits.
_BEFORE = {"game": "a97d825", "game since": "9898720"}


def game(records: list[Record]) -> list[str]:
    """Returns the table of the game: microseconds before and after, and how many times as fast it is."""
    figures = [name for name in records[0]["after"] if name not in against.COUNTS] if records else []
    lines = [
        "| µs of processor time, before > after (times as fast) | " + " | ".join(r["workload"] for r in records) + " |",
        "|---|" + "--:|" * len(records),
    ]
    for figure in figures:
        cells = []
        for record in records:
            before, after = record["before"][figure], record["after"][figure]
            cells.append(f"{before:,.4g} > {after:,.4g} ({before / after:.2f})")
        lines.append(f"| {figure.removesuffix(', us')} | {' | '.join(cells)} |")
    return lines


def parts(records: list[Record]) -> list[str]:
    """Returns the table of ratios. The last column is the share of an actor's time that is not its own."""
    lines = [
        "| part | project | bare | ratio | asked for | ratio by wall time | cores busy | search, proposals and games |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for record in sorted(records, key=lambda record: _ORDER.index(record["row"].split()[0])):
        ratio = record["project"] / record["bare"]
        goal = GOALS.get(record["row"].split()[0])
        kept = "-" if goal is None else f"{goal}: {'kept' if ratio >= goal else 'missed'}"
        name = "bare search beside LightZero's" if record["row"] == "LightZero" else record["row"]
        more = "- | - | -"
        if "games_s" in record and record["row"].startswith("actor"):
            share = ratio + record["games_s"] * record["project"]
            more = f"{record['wall_ratio']:.2f} | {record['busy_cores']:.1f} | {share:.0%}"
        rates = f"{record['project']:,.0f} | {record['bare']:,.0f} | {ratio:.2f}"
        lines.append(f"| {name}, {record['unit']} | {rates} | {kept} | {more} |")
    return lines


def render(page: str, compared: list[Record], measured: list[Record]) -> str:
    """Returns the page with its tables replaced. Raises SystemExit if the page has no place for a table."""
    tables = [(mark, game([r for r in compared if _before(r) == commit])) for mark, commit in _BEFORE.items()]
    return fill_marks(page, [*tables, ("parts", parts(measured))], MAKER, PAGE)


def _before(record: Record) -> str:
    return str(record["commits"][0])[:7]


def read() -> tuple[list[Record], list[Record]]:
    """Returns the last row of each program and commit before, and of each part."""
    compared = read_runs([against.RESULTS], lambda record: (_before(record), record["workload"]))
    measured = read_runs([ratios.RESULTS], lambda record: record["row"])
    return list(dict(compared).values()), list(dict(measured).values())


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), *read()).encode())


if __name__ == "__main__":
    main()
