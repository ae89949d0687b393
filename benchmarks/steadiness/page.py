"""Writes the tables of docs/results/steadiness.md from docs/results/steadiness.jsonl.

python -m benchmarks.steadiness.page
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from .measure import PLAYERS, RESULTS, key_of

PAGE = ROOT / "docs" / "results" / "steadiness.md"
MAKER = "benchmarks/steadiness/page.py"
# Programs to learn from and to choose by; programs to measure on.
SPLITS = {"chosen": ("train", "validation", "corpus"), "heldout": ("heldout",)}


class Spread(NamedTuple):
    """The runs of one player on one problem, per cent of production: the best, the median and the worst."""

    best: float
    median: float
    worst: float

    @property
    def spread(self) -> float:
        """The worst run behind the median one, per cent."""
        return 100.0 * (self.worst / self.median - 1.0)


# A player's name with the number of its version.
Version = tuple[str, int]
# A problem's name, and its budget in words.
Case = tuple[str, str]


def spreads(records: Iterable[Record]) -> dict[Case, dict[Version, Spread]]:
    """Returns the spread of each player in each of its versions, by problem and budget."""
    runs: dict[Case, dict[Version, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if not record["production_s"]:
            continue
        share = "" if record["share"] == 1.0 else f"@{record['share']:g}"
        budget = f"{record['seconds']:g} s" if record["games"] is None else f"{record['games']:,} games"
        version = record["versions"][PLAYERS[record["player"]]]
        ratio = 100.0 * record["judged_s"] / record["production_s"]
        runs[f"{record['program']}{share}, `{record['objective']}`", budget][record["player"], version].append(ratio)
    return {
        case: {
            version: Spread(min(ratios), float(np.median(ratios)), max(ratios)) for version, ratios in players.items()
        }
        for case, players in runs.items()
    }


def in_short(records: Sequence[Record]) -> list[str]:
    """Returns the lines of a table: a row for each budget, player and version, over the problems that all versions of
    the player have played."""
    found = spreads(records)
    lines = [
        "| budget | player | version | problems | median of production | worst behind median | most |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for budget in dict.fromkeys(budget for _, budget in found):
        for player in PLAYERS:
            players = [spread for (_, other), spread in found.items() if other == budget]
            versions = sorted({version for each in players for version in each if version[0] == player})
            common = [each for each in players if all(version in each for version in versions)]
            for version in versions if common else ():
                mine = [each[version] for each in common]
                median = np.exp(np.mean(np.log([each.median for each in mine])))
                behind = [each.spread for each in mine]
                lines.append(
                    f"| {budget} | {player} | {version[1]} | {len(mine)} | {median:.2f} % | "
                    f"{np.mean(behind):.2f} % | {max(behind):.2f} % |"
                )
    return lines


def one_by_one(records: Sequence[Record]) -> list[str]:
    """Returns the lines of a table: best, median and worst run on each problem, by budget, player and version."""
    lines = ["| problem | budget | player | version | best | median | worst |", "|---|---|---|--:|--:|--:|--:|"]
    for (problem, budget), players in sorted(spreads(records).items()):
        for (player, version), found in sorted(players.items()):
            lines.append(
                f"| {problem} | {budget} | {player} | {version} | {found.best:.2f} % | {found.median:.2f} % | "
                f"{found.worst:.2f} % |"
            )
    return lines


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its tables made from the records."""
    tables = []
    for name, splits in SPLITS.items():
        mine = [record for record in records if record["split"] in splits]
        tables += [(name, in_short(mine)), (f"{name} one by one", one_by_one(mine))]
    return fill_marks(page, tables, MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
