"""Writes the table of docs/policy.md that compares the policy's mappings with those of a minute's search, as the
compiler confirms them, from docs/results/round-trip-policy.jsonl.

python -m benchmarks.policy.confirmed
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.launch.run.guided import GUIDED, POLICY

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..round_trip.records import read
from .page import PAGE

RESULTS = ROOT / "docs" / "results" / "round-trip-policy.jsonl"
MAKER = "benchmarks/policy/confirmed.py"


def gain(run: Record, model: str) -> float:
    """Returns by how many per cent what was kept is faster than the default; 0 where the default stays."""
    return 100.0 * (1.0 - run["confirmed_us"][model] / run["default_us"][model]) if run["kept"] else 0.0


def table(runs: Sequence[Record]) -> list[str]:
    """Returns the lines of the table: programs that both solvers have mapped, and the means of the gains."""
    found: dict[str, dict[str, Record]] = defaultdict(dict)
    for run in runs:
        found[run["program"]][run["solver"]] = run
    both = {program: by for program, by in found.items() if {POLICY, GUIDED} <= by.keys()}
    lines = [
        "| gain over XLA's default, % | policy: `msa` | `cycles` | a minute: `msa` | `cycles` |",
        "|---|--:|--:|--:|--:|",
    ]
    rows = []
    for program, by in both.items():
        rows.append([gain(by[solver], model) for solver in (POLICY, GUIDED) for model in ("msa", "cycles")])
        lines.append(f"| {program} | {' | '.join(f'{value:.2f}' for value in rows[-1])} |")
    if not rows:
        return ["No runs yet."]
    means = " | ".join(f"{value:.2f}" for value in np.mean(rows, axis=0))
    return [*lines, f"| mean | {means} |"]


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its table made from the runs."""
    return fill_marks(page, [("confirmed", table(runs))], MAKER, PAGE)


def main() -> None:
    """Writes the page."""
    runs = list(read([RESULTS]).values())
    write_atomically(PAGE, render(PAGE.read_text(encoding="utf-8"), runs).encode())


if __name__ == "__main__":
    main()
