"""Writes the table of one program in docs/results/learning.md from docs/results/one-program.jsonl.

python -m benchmarks.learning.one_program_page
"""

from collections.abc import Sequence

import numpy as np

from ..common.json_lines import Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..common.versions import is_current
from ..policy.problems import Problem
from ..policy.tuned import tuned_ratio
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
        "| program | objective | seconds | seed | tuned | begins with | best, learning | frozen | frozen behind, %"
        " | policy alone, learning | frozen | moves, learning | frozen |",
        "|---|---|--:|--:" + "|--:" * 9 + "|",
    ]
    behind: dict[float, list[float]] = {}
    for objective, program, seconds, seed in runs:
        learning, frozen = (arms[objective, program, seconds, seed, arm] for arm in ARMS)
        tuned = tuned_ratio(Problem(program, 1.0, 1, objective))
        mine = behind.setdefault(seconds, [])
        mine.append(100.0 * np.log(frozen["best"] / learning["best"]))
        figures = (tuned, learning["first"], learning["best"], frozen["best"])
        lines.append(
            f"| {program} | `{objective}` | {seconds:g} | {seed} | "
            + " | ".join(f"{100.0 * figure:.2f} %" for figure in figures)
            + f" | {mine[-1]:+.2f} | {100.0 * learning['policy']:.2f} % | {100.0 * frozen['policy']:.2f} %"
            f" | {learning['moves']:,} | {frozen['moves']:,} |"
        )
    for seconds, found in behind.items():
        if len(found) > 1:
            lines.append(f"| mean of {len(found)} | | {seconds:g} | | | | | | {np.mean(found):+.2f} | | | | |")
    return lines


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its table replaced.

    Raises:
      SystemExit: the page has no place for the table.
    """
    return fill_marks(page, [("one program", table([r for r in records if is_current(r)]))], MAKER, PAGE)


def main() -> None:
    """Writes the table."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
