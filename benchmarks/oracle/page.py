"""Writes the tables of docs/results/oracle.md from docs/results/oracle.jsonl.

python -m benchmarks.oracle.page
"""

import argparse

import numpy as np

from mallocmuzero.env.storage.atomic import write_atomically

from ..common.json_lines import ROOT, Record, read_runs
from ..common.marked_page import fill_marks
from ..common.versions import is_current
from .measure import RESULTS, key_of
from .tell import WAYS

_CUT_WAYS = WAYS[3:]
_BEST_CUT = "the best cut"
PAGE = ROOT / "docs" / "results" / "oracle.md"
MAKER = "benchmarks/oracle/page.py"


def table(records: list[Record], objective: str) -> list[str]:
    """Returns the lines of an objective's table: per cent of production by program, then geometric means by split."""
    told = sorted(
        (record for record in records if record["objective"] == objective and record["ways"]),
        key=lambda record: (record["split"], record["program"]),
    )
    heads = (*WAYS, _BEST_CUT)
    lines = [f"| `{objective}` | split | label | {' | '.join(heads)} |", "|---|---|--:|" + "--:|" * len(heads)]
    for record in told:
        cells = " | ".join(f"{100 * ratio:.2f}" for ratio in _ratios(record))
        lines.append(f"| `{record['program']}` | {record['split']} | {cells} |")
    for split in ("train", "validation", "heldout", "control"):
        mine = [record for record in told if record["split"] == split]
        if mine:
            lines.append(_means(f"mean of {len(mine)}, {split}", mine))
    if told:
        lines.append(_means(f"**mean of all {len(told)}**", told))
    return lines


def _means(title: str, records: list[Record]) -> str:
    means = 100.0 * np.exp(np.log([_ratios(record) for record in records]).mean(axis=0))
    return f"| {title} | | {' | '.join(f'{mean:.2f}' for mean in means)} |"


def _ratios(record: Record) -> list[float]:
    """Returns the label, each way, and the best of the cuts, in production's latency."""
    ways: dict[str, float] = record["ways"]
    return [record["label"], *(ways[way] for way in WAYS), min(ways[way] for way in _CUT_WAYS)]


def render(page: str, records: list[Record]) -> str:
    """Returns the page with its tables made from the present version's records."""
    current = [record for record in records if is_current(record)]
    tables = [(objective, table(current, objective)) for objective in ("msa", "robust")]
    return fill_marks(page, tables, MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    records = [record for _, record in read_runs([RESULTS], key_of)]
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), records).encode())


if __name__ == "__main__":
    main()
