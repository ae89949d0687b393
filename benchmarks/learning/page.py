"""Writes the table of docs/results/learning.md from docs/results/learning.jsonl.

python -m benchmarks.learning.page
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mallocmuzero.env import workloads

from ..common.json_lines import ROOT, Record
from ..common.marked_page import below_each_other, fill_marks
from ..common.page_command import write_page
from ..policy.page import interval, is_of_today
from .measure import RESULTS, key_of

PAGE = ROOT / "docs" / "results" / "learning.md"
MAKER = "benchmarks/learning/page.py"
# A problem has room if some policy ends so far below production.
_ROOM = 0.015


class Arm(NamedTuple):
    """Policies of one kind: the number of programs that they have seen, and the placebo, or None."""

    count: int
    placebo: str | None


def by_arm(records: Sequence[Record]) -> dict[Arm, dict[tuple[str, float], list[Record]]]:
    """Returns the records by arm and problem, the fewest programs first."""
    found: dict[Arm, dict[tuple[str, float], list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in sorted(records, key=lambda record: (record["placebo"] is not None, record["count"])):
        arm = Arm(record["count"], record["placebo"])
        found[arm][record["program"], record["share"]].append(record)
    return found


def with_room(records: Sequence[Record]) -> list[Record]:
    """Returns the records of problems on which some policy ends clearly below production."""
    room = {
        (record["program"], record["share"])
        for record in records
        if record["production_s"] and record["judged_s"] < (1.0 - _ROOM) * record["production_s"]
    }
    return [record for record in records if (record["program"], record["share"]) in room]


def table(records: Sequence[Record], objective: str) -> list[str]:
    """Returns the lines of an objective's table; none without records."""
    arms = by_arm(with_room([record for record in records if record["objective"] == objective]))
    if not arms:
        return []
    best = arms[max(arm for arm in arms if arm.placebo is None)]
    lines = [
        f"| `{objective}`, {len(best)} problems | of production | behind the most programs, % | 95 % |"
        " gain in the top 5 % |",
        "|---|--:|--:|---|--:|",
    ]
    for arm, problems in arms.items():
        shared = [problem for problem in problems if problem in best]
        logs, behind = [], []
        for problem in shared:
            mine, most = _mean_log(problems[problem]), _mean_log(best[problem])
            logs.append(mine - np.log(problems[problem][0]["production_s"]))
            behind.append(100.0 * (mine - most))
        shares = [r["top_share"] for problem in shared for r in problems[problem] if r["top_share"] is not None]
        name = f"{arm.count} programs" + (f", {arm.placebo}" if arm.placebo else "")
        against = "| | "
        if problems is not best:
            low, high = interval(np.array(behind), [workloads.workload(name).family for name, _ in shared])
            against = f"| {np.mean(behind):+.2f} | {low:+.2f} to {high:+.2f} "
        gain = f"{100.0 * np.mean(shares):.1f} %" if shares else ""
        lines.append(f"| {name} | {100.0 * np.exp(np.mean(logs)):.2f} % {against}| {gain} |")
    return lines


def _mean_log(runs: Sequence[Record]) -> float:
    return float(np.mean([np.log(record["judged_s"]) for record in runs]))


def render(page: str, records: Sequence[Record], path: Path = PAGE) -> str:
    """Returns the page with its table made from the present version's records."""
    current = [record for record in records if is_of_today(record)]
    tables = (table(current, objective) for objective in ("msa", "robust"))
    lines = below_each_other(tables, "No runs of the present version yet.")
    return fill_marks(page, [("programs", lines)], MAKER, path)


def main() -> None:
    """Writes the page."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
