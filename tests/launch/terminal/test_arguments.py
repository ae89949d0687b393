"""An empty argument, as of a variable that is not set, is refused before it is taken for this folder."""

from pathlib import Path

import pytest
from launch_cases import call

from mallocmuzero.launch.cli import make_parser


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("verify", "", "production"), "PROGRAM"),
        (("verify", "tiny", ""), "MAPPING"),
        (("solve", "tiny", "-o", ""), "-o/--output"),
        (("solve", "tiny", "--output="), "-o/--output"),
        (("workloads", "--json", ""), "--json"),
        (("train", "--run-dir", ""), "--run-dir"),
        (("train", "--run-dir", "x", "--workload", "tiny", ""), "--workload"),
        (("measure", "f", "o", "--python", ""), "--python"),
        (("pack", "", "--capacity", "1"), "FILE.csv"),
        (("settings", ""), "NAME"),
    ],
)
def test_an_empty_argument_is_refused(arguments: tuple[str, ...], name: str) -> None:
    status, output, errors = call(*arguments)
    (line,) = errors.splitlines()
    assert (status, output) == (2, "")
    assert f"argument {name}: is empty; give a name" in line


def test_an_interpreter_with_a_slash_is_a_path_from_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/bin/sh")
    parser = make_parser()
    for given, path in (("./link", tmp_path / "link"), ("python3", Path("python3"))):
        for command in (("measure", "f", "o"), ("capture", "f", "--target", "v5e", "-o", "o")):
            assert parser.parse_args([*command, "--python", given]).python == path
    status, _, errors = call("capture", "m:f", "--target", "v5e", "-o", "o.json.gz", "--python", "./sh")
    assert status == 2
    assert f"--python {tmp_path / 'sh'}: there is no such program" in errors
