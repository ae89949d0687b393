"""A file that the system refuses costs one line, whichever command asks for it."""

import os
from pathlib import Path

import pytest
from launch_cases import call, train_arguments
from no_rights import locked

from mallocmuzero.launch.refused import refusal

# `PLACE` stands for the path that is refused.
COMMANDS = [
    ("verify", "PLACE", "production"),
    ("bound", "PLACE"),
    ("solve", "tiny", "--policy", "PLACE", "-o", "OUTPUT"),
    ("report", "PLACE", "-o", "PAGE"),
    ("export", "PLACE", "-o", "OUTPUT"),
    ("evaluate", "PLACE", "--workload", "tiny"),
    ("diagnose", "PLACE", "--workload", "tiny"),
    ("diagnose", "none", "--workload", "tiny", "-o", "PLACE"),
    ("train", "--run-dir", "PLACE", "--resume"),
    ("capture", "PLACE", "--target", "v5e", "-o", "OUTPUT"),
    ("capture", "m:f", "--target", "v5e", "-o", "OUTPUT", "--python", "PLACE"),
    ("impose", "tiny", "production", "-o", "OUTPUT", "--folder", "PLACE"),
    tuple(train_arguments(Path("PLACE"), "--steps", "1", workload="tiny")),
]


def refused(command: tuple[str, ...], place: Path, folder: Path) -> str:
    """Calls a command, which must refuse, and returns the one line of the error."""
    given = {"PLACE": str(place), "OUTPUT": str(folder / "output.json.gz"), "PAGE": str(folder / "page.html")}
    status, output, errors = call(*(given.get(argument, argument) for argument in command))
    (line,) = errors.splitlines()
    assert (status, output) == (2, ""), line
    assert str(place) in line
    return line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_path_below_a_folder_that_one_may_not_enter(command: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    with locked(folder):
        line = refused(command, folder / "name", tmp_path)
    assert "cannot be used (Permission denied); check its rights, and those of the folders above it" in line


def test_a_name_that_is_too_long(tmp_path: Path) -> None:
    for command in COMMANDS[:4]:
        assert "(File name too long); choose a shorter name" in refused(command, tmp_path / ("n" * 300), tmp_path)


def test_errors_of_no_file_are_not_explained() -> None:
    for error in (OSError("a bug"), OSError(9, os.strerror(9)), OSError(9, os.strerror(9), 3)):
        assert refusal(error) is None
    assert refusal(OSError(28, "No space left", b"f")) == "f: cannot be used (No space left); make room"
    full = refusal(OSError(28, "No space left on device"))  # as Numba raises it
    assert full is not None
    assert full.startswith("a file could not be written (No space left on device); make room")
