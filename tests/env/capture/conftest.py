"""A compilation for a test to change."""

import shutil
from pathlib import Path

import pytest
from compiler_cases import SMALL


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the recorded compilation."""
    return Path(shutil.copytree(SMALL, tmp_path / "small"))
