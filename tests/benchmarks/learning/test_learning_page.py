"""The page of learning: which policy is behind which, and how much of the gain its first choices hold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.common.versions import GUIDED, versions_of
from benchmarks.learning.measure import key_of, policies
from benchmarks.learning.page import PAGE, render, table
from benchmarks.learning.ranking import top_share
from benchmarks.learning.train import COUNTS, subset
from mallocmuzero.env import workloads
from mallocmuzero.env.errors import UserError


def record(
    count: int, judged_s: float, placebo: str | None = None, program: str = "mixer-b64", top: float | None = 0.4
) -> dict[str, Any]:
    return {
        "program": program,
        "program_sha256": workloads.workload(program).sha256[:12],
        "share": 1.0,
        "times": 1,
        "objective": "msa",
        "count": count,
        "seed": 0,
        "placebo": placebo,
        "policy": f"{count}",
        "versions": versions_of(GUIDED),
        "judged_s": judged_s,
        "production_s": 1.0,
        "top_share": top,
    }


RECORDS = [
    record(20, 0.92, top=0.2),
    record(300, 0.90),
    record(300, 0.93, "untrained", top=None),
    record(20, 0.999, program="strassen-8192"),
    record(300, 0.999, program="strassen-8192"),
]


def test_larger_parts_contain_smaller_ones() -> None:
    parts = [set(subset(count, 0)) for count in COUNTS]
    assert [len(part) for part in parts] == list(COUNTS)
    assert parts[0] < parts[1] < parts[2]
    assert subset(20, 0) == subset(20, 0) != subset(20, 1)


def test_policies_are_compared_with_that_of_the_most_programs_where_there_is_room() -> None:
    lines = table(RECORDS, "msa")
    assert "`msa`, 1 problems" in lines[0]
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "20 programs",
        "300 programs",
        "300 programs, untrained",
    ]
    assert f"{100 * np.log(0.92 / 0.90):+.2f}" in lines[2]
    assert "20.0 %" in lines[2]
    assert lines[4].split("|")[-2].strip() == ""
    assert table(RECORDS, "robust") == []


def test_the_page_has_a_place_for_the_table() -> None:
    assert "| 300 programs | 90.00 % |" in render(PAGE.read_text(), RECORDS)
    assert "No runs of the present version yet." in render(PAGE.read_text(), [])


def test_the_top_holds_what_the_scores_put_first() -> None:
    gain = np.array([0.0, 3.0, 0.0, 1.0] * 5)
    assert top_share(gain, gain) == pytest.approx(3.0 / 20.0)
    assert top_share(-gain, gain) == 0.0
    assert np.isnan(top_share(gain, np.zeros(20)))


def test_a_folder_without_policies_is_refused(tmp_path: Path) -> None:
    (tmp_path / "unfinished.policy").touch()
    with pytest.raises(UserError, match=r"benchmarks\.learning\.train"):
        next(policies(tmp_path))
    for name in ("100-0.policy", "20-0.policy"):
        (tmp_path / name).touch()
    assert [count for count, _, _ in policies(tmp_path)] == [20, 100]
    assert len({key_of(r) for r in RECORDS}) == len(RECORDS)
