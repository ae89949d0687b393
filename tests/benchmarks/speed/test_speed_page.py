"""The page of speed beside its results."""

from benchmarks.speed.page import PAGE, game, parts, read, render


def test_the_page_is_of_the_results() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, *read()) == page


def test_times_as_fast() -> None:
    record = {"workload": "tiny", "before": {"verify, us": 3.0}, "after": {"decisions": 4, "verify, us": 2.0}}
    assert game([record])[2:] == ["| verify | 3 > 2 (1.50) |"]


def test_goals() -> None:
    rows = [
        {"row": f"actor access {name}", "project": p, "bare": 10, "unit": "moves/s"} for name, p in (("a", 7), ("b", 6))
    ]
    kept, missed = parts(rows)[2:]
    assert kept.endswith("| 0.70 | 0.7: kept | - | - | - |")
    assert missed.endswith("| 0.60 | 0.7: missed | - | - | - |")


def test_the_time_of_an_actor_is_that_of_search_games_and_the_rest() -> None:
    row = {"row": "actor access a", "project": 4, "bare": 10, "unit": "moves/s"}
    row |= {"games_s": 0.05, "wall_ratio": 0.5, "busy_cores": 1.9}
    assert parts([row])[2].endswith("| 0.40 | 0.7: missed | 0.50 | 1.9 | 60% |")
