"""Writes the table of one program in docs/results/learning.md from docs/results/one-program.jsonl.

python -m benchmarks.learning.one_program_page
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.workloads import load

from ..common.json_lines import Record, read_runs
from ..common.marked_page import fill_marks
from ..common.versions import is_current
from ..solvers.references import reference
from .one_program import ARMS, FROZEN, LEARNING, RESULTS, key_of
from .page import PAGE

MAKER = "benchmarks/learning/one_program_page.py"
_EMPTY = ["No runs of the present version yet."]


def table(records: Sequence[Record]) -> list[str]:
    """Returns the lines of the table: a program and an objective per line, where both arms have run."""
    arms = {(r["objective"], r["program"], r["seconds"], r["seed"], r["arm"]): r for r in records}
    runs = [key for *key, arm in arms if arm == LEARNING and (*key, FROZEN) in arms]
    if not runs:
        return _EMPTY
    lines = [
        "| program | objective | seconds | tuned | begins with | best, learning | frozen | frozen behind, %"
        " | policy alone, learning | frozen | moves, learning | frozen |",
        "|---|---|--:" + "|--:" * 9 + "|",
    ]
    behind = []
    for objective, program, seconds, seed in runs:
        learning, frozen = (arms[objective, program, seconds, seed, arm] for arm in ARMS)
        tuned = reference(load(program), objective)["tuned"]
        behind.append(100.0 * np.log(frozen["best"] / learning["best"]))
        figures = (tuned, learning["first"], learning["best"], frozen["best"])
        lines.append(
            f"| {program} | `{objective}` | {seconds:g} | "
            + " | ".join(f"{100.0 * figure:.2f} %" for figure in figures)
            + f" | {behind[-1]:+.2f} | {100.0 * learning['policy']:.2f} % | {100.0 * frozen['policy']:.2f} %"
            f" | {learning['moves']:,} | {frozen['moves']:,} |"
        )
    return [*lines, f"| mean of {len(behind)} | | | | | | | {np.mean(behind):+.2f} | | | | |"]


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its table replaced.

    Raises:
      SystemExit: the page has no place for the table.
    """
    return fill_marks(page, [("one program", table([r for r in records if is_current(r)]))], MAKER, PAGE)


def main() -> None:
    """Writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    records = [record for _, record in read_runs([arguments.results], key_of)]
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), records).encode())


if __name__ == "__main__":
    main()
