"""Writes the tables of docs/policy.md from docs/results/policy.jsonl.

python -m benchmarks.policy.page
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mallocmuzero.env import workloads

from ..common.json_lines import ROOT, Record
from ..common.marked_page import below_each_other, fill_marks
from ..common.page_command import write_page
from ..common.versions import is_current
from .measure import RESULTS, fingerprint, key_of
from .players import TRAINED
from .problems import Problem
from .tuned import tuned_ratio

PAGE = ROOT / "docs" / "policy.md"
MAKER = "benchmarks/policy/page.py"
# A problem has room if some player ends so far below production, or, where there is none, below the rules' plans.
_ROOM = 0.015
_RESAMPLES = 2_000
# A difference up to this, in logarithms, is not worse.
_LEVEL = 5e-4
# Kinds of problems: programs as they are, of fewer accesses than this or of as many, and programs repeated end to end.
SHORT, LONG, REPEATED, LONG_FROM = "short", "long", "repeated", 5_000
# Name in the page, seconds, and kind of problem.
_TABLES = (
    ("instant", 0.0, SHORT),
    ("tenth", 0.1, SHORT),
    ("second", 1.0, SHORT),
    ("long in one second", 1.0, LONG),
    ("long in three seconds", 3.0, LONG),
    ("long", 10.0, LONG),
    ("repeated", 10.0, REPEATED),
)


class Compared(NamedTuple):
    """A player against the trained policy, over problems.

    Attributes:
      of_production: geometric mean, per cent.
      behind: mean of `100 ln(player / trained)`: positive where the policy is better.
      low, high: 95 % interval of it, by bootstrap over families.
      better, worse: problems on which the trained policy is better or worse by more than 0.05 %.
      level, of: the programs on which it is no worse than XLA's mapping under the best of its flags, of those with all
        of their memory and such a mapping.
      milliseconds: median of what it spent.
    """

    of_production: float
    behind: float
    low: float
    high: float
    better: int
    worse: int
    level: int
    of: int
    milliseconds: float


def problem_of(record: Record) -> Problem:
    """Returns the problem that a record is of."""
    return Problem(record["program"], record["share"], record["times"], record["objective"])


def is_of_today(record: Record) -> bool:
    """Returns whether a record is of the present versions, and of the program that is committed."""
    return is_current(record) and record["program_sha256"] == problem_of(record).program_sha256


def by_problem(records: Sequence[Record]) -> dict[Problem, dict[str, list[Record]]]:
    """Returns the records by problem and player."""
    found: dict[Problem, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        found[problem_of(record)][record["player"]].append(record)
    return found


def with_room(records: Sequence[Record]) -> set[Problem]:
    """Returns the problems on which some player, the trained one left out, ends clearly below production."""
    return {
        problem
        for problem, players in by_problem(records).items()
        if any(
            record["judged_s"] and record["production_s"] and record["judged_s"] < (1 - _ROOM) * record["production_s"]
            for player, runs in players.items()
            if player != TRAINED
            for record in runs
        )
    }


def compare(records: Sequence[Record], player: str) -> Compared | None:
    """Compares a player with the trained policy on the problems that both have played."""
    ratios, behind, families, spent, level = [], [], [], [], []
    for problem, players in by_problem(records).items():
        mine, other = (_mean_log(players.get(name, [])) for name in (TRAINED, player))
        if mine is None or other is None:
            continue
        production_s = players[player][0]["production_s"]
        if production_s:
            ratios.append(other - np.log(production_s))
        tuned = tuned_ratio(problem)
        if production_s and tuned is not None:
            level.append(other - np.log(production_s) <= np.log(tuned) + _LEVEL)
        behind.append(100.0 * (other - mine))
        families.append(workloads.workload(problem.program).family)
        spent += [record["spent_s"] for record in players[player]]
    if not behind:
        return None
    low, high = interval(np.array(behind), families)
    return Compared(
        100.0 * float(np.exp(np.mean(ratios))) if ratios else float("nan"),
        float(np.mean(behind)),
        low,
        high,
        int((np.array(behind) > 0.05).sum()),
        int((np.array(behind) < -0.05).sum()),
        sum(level),
        len(level),
        1e3 * float(np.median(spent)),
    )


def _mean_log(runs: Sequence[Record]) -> float | None:
    seconds = [record["judged_s"] for record in runs if record["judged_s"]]
    return float(np.mean(np.log(seconds))) if seconds else None


def interval(values: np.ndarray, families: Sequence[str]) -> tuple[float, float]:
    """Returns the 95 % interval of the mean by bootstrap over families."""
    groups = [values[[other == family for other in families]] for family in dict.fromkeys(families)]
    draw = np.random.default_rng(0)
    means = [
        np.concatenate([groups[k] for k in draw.integers(0, len(groups), len(groups))]).mean()
        for _ in range(_RESAMPLES)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def kind_of(record: Record) -> str:
    """Returns the kind of a record's problem."""
    if record["times"] > 1:
        return REPEATED
    return LONG if record["accesses"] >= LONG_FROM else SHORT


def table(records: Sequence[Record], seconds: float, objective: str, kind: str) -> list[str]:
    """Returns the lines of a table: one row for each player, on the problems of a kind with room."""
    room = with_room([record for record in records if record["objective"] == objective])
    chosen = [
        record
        for record in records
        if record["objective"] == objective
        and record["seconds"] == seconds
        and kind_of(record) == kind
        and problem_of(record) in room
    ]
    problems = len(by_problem(chosen))
    lines = [
        f"| `{objective}`, {problems} problems | of production | behind `{TRAINED}`, % | 95 % | better / worse |"
        " no worse than tuned | median ms |",
        "|---|--:|--:|---|--:|--:|--:|",
    ]
    for player in dict.fromkeys(record["player"] for record in chosen):
        found = compare(chosen, player)
        if found is None:
            continue
        against = (
            "| | "
            if player == TRAINED
            else f"| {found.low:+.2f} to {found.high:+.2f} | {found.better} / {found.worse} "
        )
        behind = "" if player == TRAINED else f"{found.behind:+.2f}"
        level = f"{found.level} of {found.of}" if found.of else ""
        lines.append(
            f"| {player} | {found.of_production:.2f} % | {behind} {against}| {level} | {found.milliseconds:.0f} |"
        )
    return lines


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its tables made from the present version's records of the shipped policy."""
    shipped = fingerprint(None)
    current = [record for record in records if is_of_today(record) and record["policy"] == shipped]
    tables = []
    for name, seconds, kind in _TABLES:
        made = (table(current, seconds, objective, kind) for objective in ("msa", "robust"))
        rows = (lines for lines in made if len(lines) > 2)
        tables.append((name, below_each_other(rows, "No runs of the shipped policy yet.")))
    return fill_marks(page, tables, MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
