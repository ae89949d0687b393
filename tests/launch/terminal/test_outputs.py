"""No command writes over what it reads, or writes two results to one file."""

import shutil
from pathlib import Path

import pytest
from launch_cases import call

from mallocmuzero.env.workloads import workload


@pytest.fixture
def program(tmp_path: Path) -> Path:
    return Path(shutil.copy(workload("tiny").path, tmp_path / "p.json.gz"))


@pytest.mark.parametrize("command", [("solve", "--seconds", "0"), ("bound", "--seconds", "0")])
def test_an_input_is_not_replaced(program: Path, command: tuple[str, ...], tmp_path: Path) -> None:
    before = program.read_bytes()
    link = tmp_path / "link.json.gz"
    link.symlink_to(program)
    for output in (program, link):
        status, _, errors = call(*command, str(program), "-o", str(output))
        assert status == 2
        assert f"-o {output}: the command reads this file, and would replace it" in errors
    assert program.read_bytes() == before


def test_two_results_do_not_go_to_one_file(program: Path, tmp_path: Path) -> None:
    output = tmp_path / "z.json.gz"
    status, _, errors = call("solve", str(program), "--seconds", "0", "-o", str(output), "--json", str(output))
    assert status == 2
    assert f"--json {output}: -o names the same file" in errors
    assert not output.exists()


def test_a_limit_without_end_is_refused(tmp_path: Path) -> None:
    status, _, errors = call("solve", "tiny", "--seconds", "inf", "-o", str(tmp_path / "z.json.gz"))
    assert status == 2
    assert "a limit of inf seconds cannot be kept" in errors
