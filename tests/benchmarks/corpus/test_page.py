"""The page of the corpus: its tables, from rows and the manifest."""

from typing import Any

from benchmarks.corpus.page import kinds, left_out, likeness, summary
from mallocmuzero.env import workloads


def row(split: str, found: float, pressure: float = 1.0) -> dict[str, Any]:
    return {
        "split": split,
        "seconds": 2.0,
        "accesses": 100,
        "instructions": 20,
        "loops": 0,
        "pressure": pressure,
        "production_s": 1e-3,
        "found": found,
        "floor": 0.5,
    }


ROWS = [row("corpus", 0.9, 0.5), row("corpus", 1.0, 1.5), row("heldout", 0.8)]


def test_the_corpus_stands_beside_the_splits() -> None:
    lines = likeness(ROWS)
    assert "| | corpus | heldout | validation | train |" in lines
    assert "| programs | 2 | 1 | 0 | 0 |" in lines
    assert "| pressure | 0.60, 1.00, 1.40 | 1.00, 1.00, 1.00 | - | - |" in lines
    assert "| contended | 50 % | 100 % | - | - |" in lines


def test_a_summary_counts_what_was_searched() -> None:
    first, second = summary(ROWS)
    assert first.startswith(f"{len(workloads.corpus_names())} programs, ")
    assert second.startswith("On 1 of 2 that were searched, 2 s of annealing finds")


def test_kinds_and_reasons_add_up() -> None:
    counted = [int(line.split(" | ")[1]) for line in kinds()[2:] if line.startswith("| ")]
    assert sum(counted) == len(workloads.corpus_names())
    assert all(line.count("|") == 3 for line in left_out())
