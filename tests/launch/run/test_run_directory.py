"""A run directory is refused before the run begins, not when its first checkpoint is written."""

import os
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.run.directory import RunDirectory


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is no name in UTF-8, as checkpoints need; choose another"):
        RunDirectory(tmp_path / os.fsdecode(b"run\xff")).check_new()
    RunDirectory(tmp_path / "runñ").check_new()
