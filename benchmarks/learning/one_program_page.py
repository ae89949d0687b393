"""Writes the tables of one program in docs/results/learning.md, and their picture, from docs/results/one-program.jsonl.

python -m benchmarks.learning.one_program_page
"""

from collections.abc import Sequence

import numpy as np

from ..common.json_lines import Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..common.versions import is_current
from ..policy.page import interval
from .one_program import RESULTS, key_of
from .one_program_pairs import Pair, longest, pairs
from .one_program_picture import draw
from .page import PAGE

MAKER = "benchmarks/learning/one_program_page.py"
_EMPTY = ["No runs of the present version yet."]
# Runs of so many seconds also have a line together: learning takes time.
LONG_S = 400.0
_FOLLOWED = {False: "nothing", True: "production"}


def summary(records: Sequence[Record]) -> list[str]:
    """Returns the lines of the summary: one for each number of seconds, and one for long runs together."""
    found = pairs(records)
    if not found:
        return _EMPTY
    groups: list[tuple[str, list[Pair]]] = []
    for follow in (False, True):
        kind = [pair for pair in found if pair.follow == follow]
        for seconds in sorted({pair.seconds for pair in kind}):
            groups.append((f"{seconds:g}", [pair for pair in kind if pair.seconds == seconds]))
        if len({pair.seconds for pair in kind if pair.seconds >= LONG_S}) > 1:
            groups.append((f"{LONG_S:g} and more", longest(kind, LONG_S)))
    lines = [
        "| games follow | seconds | machine | pairs | frozen behind, % | 95 % | learning better / worse"
        " | better than tuned | policy alone: frozen behind, % | 95 % | learning better / worse |",
        "|---|--:|---|--:|--:|---|--:|--:|--:|---|--:|",
    ]
    for seconds, group in groups:
        machines = ", ".join(sorted({pair.learning["machine"] for pair in group}))
        won = sum(pair.learning["best"] < pair.tuned for pair in group)
        lines.append(
            f"| {_FOLLOWED[group[0].follow]} | {seconds} | {machines} | {len(group)}"
            f" | {_lead([pair.behind for pair in group])} | {won} of {len(group)}"
            f" | {_lead([pair.policy_behind for pair in group])} |"
        )
    return lines


def _lead(behind: Sequence[float]) -> str:
    """Returns three cells: the mean of what frozen runs are behind, its interval, and how many are behind and ahead."""
    found = np.array(behind)
    low, high = interval(found, [str(number) for number in range(len(found))])
    within = f"{low:+.2f} to {high:+.2f}" if len(found) > 1 else ""
    return f"{found.mean():+.2f} | {within} | {(found > 0.0).sum()} / {(found < 0.0).sum()}"


def table(records: Sequence[Record]) -> list[str]:
    """Returns the lines of the table: one for each pair."""
    found = pairs(records)
    if not found:
        return _EMPTY
    lines = [
        "| games follow | program | objective | seconds | seed | tuned | begins with | best, learning | frozen"
        " | frozen behind, % | policy alone, learning | frozen | moves, learning | frozen |",
        "|---|---|---|--:|--:" + "|--:" * 9 + "|",
    ]
    for pair in found:
        learning, frozen = pair
        figures = (pair.tuned, learning["first"], learning["best"], frozen["best"])
        lines.append(
            f"| {_FOLLOWED[pair.follow]} | {learning['program']} | `{learning['objective']}` | {pair.seconds:g}"
            f" | {learning['seed']} | "
            + " | ".join(f"{100.0 * figure:.2f} %" for figure in figures)
            + f" | {pair.behind:+.2f} | {100.0 * learning['policy']:.2f} % | {100.0 * frozen['policy']:.2f} %"
            f" | {learning['moves']:,} | {frozen['moves']:,} |"
        )
    return lines


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    current = [record for record in records if is_current(record)]
    return fill_marks(page, [("one program summary", summary(current)), ("one program", table(current))], MAKER, PAGE)


def main() -> None:
    """Writes the tables and the picture."""
    records = write_page(__doc__, PAGE, RESULTS, key_of, render)
    draw(longest(pairs([record for record in records if is_current(record)]), LONG_S))


if __name__ == "__main__":
    main()
