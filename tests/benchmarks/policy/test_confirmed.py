"""The table of what the compiler confirms of the policy's mappings."""

from typing import Any

from benchmarks.policy.confirmed import PAGE, RESULTS, read, render, table


def run(program: str, solver: str, confirmed: float, kept: str | None = "order") -> dict[str, Any]:
    us = {"msa": confirmed, "cycles": confirmed}
    return {
        "program": program,
        "solver": solver,
        "kept": kept,
        "default_us": {"msa": 100.0, "cycles": 100.0},
        "confirmed_us": us,
    }


def test_programs_that_both_have_mapped_are_compared() -> None:
    runs = [run("p", "policy", 80.0), run("p", "guided", 50.0), run("q", "policy", 80.0)]
    lines = table(runs)
    assert lines[2:] == ["| p | 20.00 | 20.00 | 50.00 | 50.00 |", "| mean | 20.00 | 20.00 | 50.00 | 50.00 |"]


def test_where_the_default_stays_nothing_is_gained() -> None:
    lines = table([run("p", "policy", 120.0, kept=None), run("p", "guided", 100.0)])
    assert lines[2] == "| p | 0.00 | 0.00 | 0.00 | 0.00 |"


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, list(read([RESULTS]).values())) == page
