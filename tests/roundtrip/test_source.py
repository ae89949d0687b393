"""The source of a program: its file's module, or its function."""

from dataclasses import replace
from pathlib import Path

import pytest

from mallocmuzero.env.capture.same_problem import same_problem
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.workloads import load, workload
from mallocmuzero.roundtrip.source import Source, check_source, find_source


def test_where_the_function_is(tmp_path: Path) -> None:
    tiny = load("tiny")
    assert find_source(tiny).function == workload("tiny").reference
    mine = replace(tiny, name="mine", provenance={"function": "m:f", "topology": "v5e:1x1", "jax": "1"})
    assert find_source(mine, folder=Path("/x")) == Source("m:f", "v5e:1x1", Path("/x"), {}, {"jax": "1"})
    assert same_problem(tiny, mine)
    assert same_problem(tiny, replace(tiny, access_bytes=tiny.access_bytes * (1 + 1e-7)))
    assert not same_problem(tiny, replace(tiny, access_bytes=tiny.access_bytes * (1 + 1e-4)))
    assert not same_problem(tiny, replace(tiny, size=tiny.size + 1))
    for lacking in ({}, {"function": 3}, {"function": "m:f"}):
        with pytest.raises(UserError, match=r"lacks `provenance\.(function|topology)`"):
            find_source(replace(tiny, name="mine", provenance=lacking))
    # The file's own module serves unless a folder is named.
    write_program(mine, tmp_path / "mine.json.gz", b"module")
    assert find_source(mine, tmp_path / "mine.json.gz").module == b"module"
    assert find_source(mine, tmp_path / "mine.json.gz", Path("/x")).module is None


def test_a_function_that_is_not_there_is_told_before_any_search(tmp_path: Path) -> None:
    source = Source("models:step", "v5e:1x1", tmp_path, {}, {})
    with pytest.raises(UserError, match=r"no module 'models' in .*give --folder the folder"):
        check_source(source, None)
    check_source(source, tmp_path / "python")  # may have it installed
    check_source(replace(source, module=b"module"), None)
    (tmp_path / "models.py").write_text("def other(): ...\n", encoding="utf-8")
    with pytest.raises(UserError, match="defines no function 'step'"):
        check_source(source, None)
