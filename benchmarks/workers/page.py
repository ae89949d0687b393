"""Writes the tables of docs/results/workers.md from docs/results/workers.jsonl.

python -m benchmarks.workers.page
"""

import math
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from .measure import RESULTS, key_of

PAGE = ROOT / "docs" / "results" / "workers.md"
MAKER = "benchmarks/workers/page.py"
# The tables of the page, by their number of workers.
TABLES = {"sixteen": 16}
# A number of workers, and whether they work together.
Way = tuple[int, bool]


def ratios(records: Sequence[Record], workers: int) -> dict[tuple[str, str, int], dict[Way, float]]:
    """Returns the per cent of production by problem (program, objective, accesses) and way, a geometric mean of seeds:
    problems that one worker and so many have solved, apart and together, with the same seeds on the same machine."""
    found: dict[tuple[str, str, int, str], dict[Way, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        case = record["program"], record["objective"], record["accesses"], record["machine"]
        ratio = 100.0 * record["judged_s"] / (record["production_s"] or record["judged_s"])
        found[case][record["workers"], record["together"]][record["seed"]] = ratio
    ways = (1, False), (workers, False), (workers, True)
    return {
        case[:3]: {way: math.exp(np.mean([math.log(by_way[way][seed]) for seed in seeds])) for way in ways}
        for case, by_way in found.items()
        if (seeds := set.intersection(*(set(by_way[way]) for way in ways)))
    }


def table(records: Sequence[Record], workers: int) -> list[str]:
    """Returns the lines of a table: a row for each problem, and means."""
    found = ratios(records, workers)
    one, apart, together = (1, False), (workers, False), (workers, True)
    lines = [
        f"| program | objective | accesses | one | {workers} apart | {workers} together | apart, % better than one | "
        "together, % better than one | together, % better than apart |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    gains = []
    for (program, objective, accesses), ratio in sorted(found.items(), key=lambda entry: entry[0][2]):
        gain = [_better(ratio[one], ratio[apart]), _better(ratio[one], ratio[together])]
        gain.append(_better(ratio[apart], ratio[together]))
        gains.append(gain)
        lines.append(
            f"| {program} | `{objective}` | {accesses:,} | "
            + " | ".join(f"{ratio[way]:.2f} %" for way in (one, apart, together))
            + "".join(f" | {each:+.2f}" for each in gain)
            + " |"
        )
    if gains:
        means = np.mean(gains, axis=0)
        lines.append(f"| mean of {len(gains)} | | | | | |" + "".join(f" {each:+.2f} |" for each in means))
    return lines


def _better(before: float, after: float) -> float:
    return 100.0 * math.log(before / after)


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its tables made from the records."""
    return fill_marks(page, [(name, table(records, workers)) for name, workers in TABLES.items()], MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
