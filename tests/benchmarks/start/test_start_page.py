"""The page of starts beside its results, and budgets that are missed."""

import json
from dataclasses import asdict

from benchmarks.start.measure import PROCESSOR, RESULTS, WALL, Row
from benchmarks.start.page import PAGE, render

COLD = Row("solve tiny", True, 1, 31.0, 30.0, 20, 45.0, PROCESSOR)
WARM = Row("--help", False, 2, 0.4, 0.1, 0, 0.3, WALL)


def test_the_page_is_of_the_results() -> None:
    if RESULTS.exists():
        page = PAGE.read_text(encoding="utf-8")
        assert render(page, json.loads(RESULTS.read_text(encoding="utf-8"))) == page


def test_budgets() -> None:
    assert not COLD.missed
    assert WARM.missed
    before = asdict(COLD) | {"wall_s": 499.0, "processor_s": 222.0}
    result = {"commit": "b", "rows": [asdict(COLD), asdict(WARM)], "against": {"commit": "a", "rows": [before]}}
    lines = render(PAGE.read_text(encoding="utf-8"), result).splitlines()
    assert "| `solve tiny` | 1 | 31.0 | 30.0 | 20 | 45 s processor: kept | 499.0 | 222.0 |" in lines
    assert "| `--help` | 2 | 0.40 | 0.10 | 0 | 0.3 s wall: missed | - | - |" in lines
