"""Writes the table of training seeds of docs/policy.md from docs/results/training-seeds.jsonl.

    python -m benchmarks.policy.measure --seconds 0 --seeds 3 --players trained untrained shuffled \\
        --results docs/results/training-seeds.jsonl [--policy FILE]     # once for each policy
    python -m benchmarks.policy.training_seeds
"""

from collections.abc import Sequence

from ..common.json_lines import ROOT, Record
from ..common.marked_page import below_each_other, fill_marks
from ..common.page_command import write_page
from .measure import fingerprint, key_of
from .page import PAGE, compare, is_of_today, problem_of, with_room
from .players import TRAINED

RESULTS = ROOT / "docs" / "results" / "training-seeds.jsonl"
MAKER = "benchmarks/policy/training_seeds.py"
_SHIPPED = "shipped"
_OTHERS = ("untrained", "shuffled", _SHIPPED)


def table(records: Sequence[Record], objective: str) -> list[str]:
    """Returns the lines of an objective's table: one row for each policy, the shipped one first; none without it."""
    room = with_room([record for record in records if record["objective"] == objective])
    chosen = [record for record in records if problem_of(record) in room]
    shipped = fingerprint(None)
    shipped_runs = [
        {**record, "player": _SHIPPED}
        for record in chosen
        if record["policy"] == shipped and record["player"] == TRAINED
    ]
    if not shipped_runs:
        return []
    lines = [
        f"| `{objective}`, {len(room)} problems | seed | updates | programs | of production |"
        " untrained behind, % | 95 % | shuffled behind, % | 95 % | shipped behind, % | 95 % |",
        "|---|--:|--:|--:|--:|--:|---|--:|---|--:|---|",
    ]
    for policy in sorted({record["policy"] for record in chosen}, key=lambda policy: (policy != shipped, policy)):
        mine = [record for record in chosen if record["policy"] == policy]
        how, own = mine[0]["training"], compare(mine, TRAINED)
        assert own is not None
        cells = [
            "shipped" if policy == shipped else "again",
            str(how["seed"]),
            f"{how['updates']:,}",
            f"{how['programs']:,}",
            f"{own.of_production:.2f} %",
        ]
        for other in _OTHERS:
            itself = policy == shipped and other == _SHIPPED
            found = None if itself else compare([*mine, *shipped_runs], other)
            cells += ["", ""] if found is None else [f"{found.behind:+.2f}", f"{found.low:+.2f} to {found.high:+.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def render(page: str, records: Sequence[Record]) -> str:
    """Returns the page with its table made from the present version's records."""
    current = [record for record in records if is_of_today(record)]
    tables = (table(current, objective) for objective in ("msa", "robust"))
    lines = below_each_other(tables, "No runs of the present version yet.")
    return fill_marks(page, [("training seeds", lines)], MAKER, PAGE)


def main() -> None:
    """Writes the table."""
    write_page(__doc__, PAGE, RESULTS, key_of, render)


if __name__ == "__main__":
    main()
