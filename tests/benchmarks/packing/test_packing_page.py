"""The packing benchmark: its instances, a row for each, and MiniMalloc's answers where there is one."""

import stat
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.json_lines import ROOT
from benchmarks.packing import minimalloc
from benchmarks.packing.instances import of_folder
from benchmarks.packing.measure import measure
from benchmarks.packing.page import table
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.packing.pack import FEASIBLE, INFEASIBLE, UNDECIDED
from mallocmuzero.env.packing.problem import make_packing

CHALLENGING = ROOT / "benchmarks" / "packing" / "challenging"


def fake(folder: Path, script: str) -> Path:
    """Returns an executable that takes MiniMalloc's options as `$1` to `$8`."""
    path = folder / "fake"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return path


def test_the_challenging_instances_are_solved() -> None:
    instances = dict(of_folder(CHALLENGING))
    assert sorted(instances) == list("ABCDEFGHIJK")
    # The two that take the fewest nodes; the search repeats.
    for name in "KI":
        row = measure(instances[name], 60.0, None)
        assert (row["status"], row["method"]) == (FEASIBLE, "exact")


def test_a_folder_without_instances_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no file NAME\.CAPACITY\.csv"):
        next(of_folder(tmp_path))


def test_its_answers_are_told_apart(tmp_path: Path) -> None:
    two = make_packing([0, 0], [2, 2], [4, 4], 8)
    offsets = 'printf "id,lower,upper,size,offset\\n0,0,2,4,4\\n1,0,2,4,0\\n" > "$4"'
    assert minimalloc.run(fake(tmp_path, offsets), two, 1.0).status == FEASIBLE
    assert minimalloc.run(fake(tmp_path, "echo NOT_FOUND >&2; exit 1"), two, 1.0).status == INFEASIBLE
    assert minimalloc.run(fake(tmp_path, "echo DEADLINE_EXCEEDED >&2; exit 1"), two, 1.0).status == UNDECIDED
    with pytest.raises(RuntimeError, match="ended with status 3: out of luck"):
        minimalloc.run(fake(tmp_path, "echo out of luck >&2; exit 3"), two, 1.0)
    wrong = offsets.replace("1,0,2,4,0", "1,0,2,4,4")
    with pytest.raises(RuntimeError, match="breaks the rules"):
        minimalloc.run(fake(tmp_path, wrong), two, 1.0)
    with pytest.raises(UserError, match="cannot be started"):
        minimalloc.run(tmp_path / "missing", two, 1.0)


def test_a_table_has_the_ratio_of_seconds() -> None:
    row: dict[str, Any] = {
        "items": 2,
        "capacity": 8,
        "load": 8,
        "best_fit": 10,
        "status": FEASIBLE,
        "processor_seconds": 0.5,
        "minimalloc_status": UNDECIDED,
        "minimalloc_processor_seconds": 2.0,
    }
    alone = row | {"minimalloc_status": None, "minimalloc_processor_seconds": None}
    assert table({"two": [row], "alone": [alone]})[2:] == [
        "| two | 2 | 1.000 | 1.250 | 1/1 | 0/1 | 0/1 | 0.50 | 0/1 | 0/1 | 1/1 | 2.00 | 4.0 |",
        "| alone | 2 | 1.000 | 1.250 | 1/1 | 0/1 | 0/1 | 0.50 |  |  |  |  |  |",
    ]
