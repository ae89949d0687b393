"""The page of steadiness: the worst run behind the median one, by problem, budget, player and version."""

from typing import Any

import pytest

from benchmarks.common.versions import GUIDED
from benchmarks.steadiness.measure import NONE
from benchmarks.steadiness.page import in_short, one_by_one, render, spreads


def record(
    seed: int, judged: float, version: int = 1, program: str = "tiny", games: int | None = None
) -> dict[str, Any]:
    return {
        "program": program,
        "share": 0.5,
        "objective": "msa",
        "seconds": 1.0 if games is None else None,
        "games": games,
        "player": NONE,
        "seed": seed,
        "judged_s": judged,
        "production_s": 2.0,
        "versions": {"game": 1, GUIDED: version},
        "split": "train",
    }


RUNS = [
    *(record(seed, judged) for seed, judged in enumerate((1.0, 1.1, 1.65))),
    *(record(seed, judged, version=2) for seed, judged in enumerate((1.0, 1.0, 1.1))),
]


def test_the_worst_is_compared_with_the_median() -> None:
    found = spreads(RUNS)["tiny@0.5, `msa`", "1 s"]
    before, after = found[NONE, 1], found[NONE, 2]
    assert (before.best, before.median, before.worst) == pytest.approx((50.0, 55.0, 82.5))
    assert before.spread == pytest.approx(50.0)
    assert after.spread == pytest.approx(10.0)


def test_versions_are_compared_on_problems_that_both_have_played() -> None:
    lines = in_short([*RUNS, record(0, 1.0, version=2, program="vgg16-train-b16")])
    assert lines[2:] == [
        "| 1 s | none | 1 | 1 | 55.00 % | 50.00 % | 50.00 % |",
        "| 1 s | none | 2 | 1 | 50.00 % | 10.00 % | 10.00 % |",
    ]
    assert len(one_by_one([*RUNS, record(0, 1.0, games=500)])) == 2 + 3
    assert "500 games" in one_by_one([record(0, 1.0, games=500)])[2]


def test_tables_go_to_their_splits() -> None:
    marks = ("chosen", "chosen one by one", "heldout", "heldout one by one")
    page = "".join(f"<!-- {mark}: made by benchmarks/steadiness/page.py -->\n<!-- end -->\n" for mark in marks)
    made = render(page, [*RUNS, {**record(0, 1.0), "split": "heldout", "program": "mixer-b64"}])
    chosen, heldout = made.split("<!-- heldout:")[:2]
    assert "tiny" in chosen
    assert "mixer" in made
    assert "mixer" not in chosen
    assert "| none | 1 | 1 | 50.00 %" in heldout
