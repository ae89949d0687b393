"""`mallocmuzero pack`: reads and writes MiniMalloc's CSV, and names what is wrong with a file."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from launch_cases import call

from mallocmuzero.env.packing.generate import pinwheels

GOOD = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "buffers.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_packs_without_a_spare_byte(tmp_path: Path) -> None:
    cut = pinwheels(6, np.random.default_rng(0), 50, 1000).packing
    rows = zip(cut.span_lower, cut.span_upper, cut.size, strict=True)
    lines = [f"{number},{a},{b},{size}" for number, (a, b, size) in enumerate(rows)]
    path, output = write(tmp_path, "id,lower,upper,size\n" + "\n".join(lines) + "\n"), tmp_path / "out.csv"
    status, text, _ = call("pack", str(path), "--capacity", "1000", "-o", str(output))
    assert status == 0
    assert text.startswith("packed into 1000 bytes")
    with output.open(encoding="utf-8") as file:
        solved = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
    assert list(solved[0]) == ["id", "lower", "upper", "size", "offset"]
    assert [row["id"] for row in solved] == list(range(cut.items))
    for a in solved:
        assert 0 <= a["offset"] <= 1000 - a["size"]
        for b in solved:
            if a["id"] < b["id"] and a["lower"] < b["upper"] and b["lower"] < a["upper"]:
                assert a["offset"] + a["size"] <= b["offset"] or b["offset"] + b["size"] <= a["offset"]


def test_json_and_exit_status(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    status, text, _ = call("pack", str(path), "--capacity", "12", "--json", "-")
    result = json.loads(text)
    assert status == 0
    assert result["status"] == "feasible"
    assert (result["buffers"], result["capacity_bytes"], result["load_bytes"]) == (5, 12, 12)
    assert result["peak_bytes"] == 12
    assert set(result["offsets"]) == {"b1", "b2", "b3", "b4", "b5"}
    status, text, _ = call("pack", str(path), "--capacity", "11", "--json", "-", "-o", str(tmp_path / "none.csv"))
    result = json.loads(text)
    assert status == 1
    assert (result["status"], result["method"]) == ("infeasible", "load")
    assert result["offsets"] is None
    assert not (tmp_path / "none.csv").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: there is no column 'id'"),
        ("id,lower,upper\n", "line 1: there is no column 'size'"),
        ("id,id,lower,upper,size\n", "line 1: column 'id' stands there twice"),
        (GOOD + "b6,1,2\n", "line 7: has 3 fields, the header has 4"),
        (GOOD + "b6,1,x,3\n", "line 7: field 'upper': 'x' is not a whole number"),
        (GOOD + "b6,1,1,3\n", "line 7: field 'upper': 1 is not after lower, 1"),
        (GOOD + "b6,1,2,0\n", "line 7: field 'size': 0 is not at least 1"),
        (GOOD + "b2,1,2,3\n", "line 7: field 'id': 'b2' stands in line 3 already"),
        (GOOD + "b6,1,2,99999999999999999999\n", "line 7: field 'size': 99999999999999999999 is too large"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    status, _, error = call("pack", str(path), "--capacity", "12")
    assert status == 2
    assert f"{path}: {words}" in error


def test_bad_options(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    for option in (
        ["--capacity", "0"],
        ["--capacity", "9", "--alignment", "0"],
        ["--capacity", "9", "--alignment", str(10**30)],
        ["--capacity", str(10**30)],
        ["--capacity", "9", "--seconds", "-1"],
    ):
        status, _, error = call("pack", str(path), *option)
        assert status == 2
        assert "--" in error
    assert call("pack", str(tmp_path / "no.csv"), "--capacity", "9")[0] == 2
