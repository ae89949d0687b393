"""Mapping files are read back as they were written; a wrong one is refused, with file and field named."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from file_edits import change, removing, setting, small_program
from hypothesis import given, settings
from programs import programs

from mallocmuzero.env.errors import FormatError
from mallocmuzero.env.program.mapping_file import read_mapping, write_mapping
from mallocmuzero.env.program.program import Program, all_hbm


@settings(max_examples=40, deadline=None)
@given(programs())
def test_mappings_are_read_back(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    path = tmp_path_factory.mktemp("files") / "m.json.gz"
    mapping = all_hbm(program)
    write_mapping(mapping, program, path)
    assert np.array_equal(read_mapping(path, program).access_fast, mapping.access_fast)


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (setting("program_sha256", value="0" * 64), "belongs to another program"),
        (setting("accesses_fast", value=[99]), "`accesses_fast` names an access outside"),
        (setting("accesses_fast", value=[0.5]), "`accesses_fast[0]` is 0.5"),
        (removing("copies", "replaces"), "`copies.replaces` is missing"),
        (setting("residencies", "buffer", value=[1]), "`residencies` has columns of different lengths"),
        (setting("origin", value=None), "`origin` is not a dict"),
    ],
)
def test_a_wrong_mapping_file_is_refused(edit: Callable[[dict[str, Any]], None], field: str, tmp_path: Path) -> None:
    path, program = tmp_path / "mapping.json.gz", small_program()
    write_mapping(all_hbm(program), program, path)
    change(path, edit)
    with pytest.raises(FormatError) as error:
        read_mapping(path, program)
    assert str(error.value).startswith(f"{path}: ")
    assert field in str(error.value)
