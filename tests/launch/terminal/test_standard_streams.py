"""Standard output that is closed, full, a pipe without a reader, or ASCII only costs no traceback."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mallocmuzero.launch.terminal.console import show_line
from mallocmuzero.launch.terminal.standard_streams import open_streams

COMMAND = (sys.executable, "-m", "mallocmuzero")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"), [(["settings", "schedule"], "1"), (["settings", "schedule"], ""), (["--help"], "")]
)
def test_full(arguments: list[str], unbuffered: str) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    (line,) = done.stderr.splitlines()
    assert line.startswith("mallocmuzero: error: standard output: cannot be used (No space left on device)")
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [["settings"], ["--version"]])
def test_a_pipe_without_a_reader(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*COMMAND, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    ("closed", "status", "outputs", "errors"),
    [
        (">&-", 2, False, "mallocmuzero: error: standard output: is closed; send it to a file, a pipe or /dev/null\n"),
        ("2>&-", 0, True, ""),
        (">&- 2>&-", 2, False, ""),
    ],
)
def test_closed(closed: str, status: int, outputs: bool, errors: str) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, "settings", "search"]
    done = subprocess.run(shell, capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout), done.stderr) == (status, outputs, errors)


def test_characters_that_cannot_be_printed_become_question_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "output").open("wb") as file:
        for errors in ("strict", "surrogateescape", "backslashreplace"):
            before = io.TextIOWrapper(file, encoding="ascii", errors=errors)
            monkeypatch.setattr(sys, "stdout", before)
            open_streams()
            print("10 µs \udcff")
            sys.stdout.flush()
            before.detach()  # or it would close the file
        assert (tmp_path / "output").read_text() == "10 ?s ?\n10 ?s ?\n10 \\xb5s \\udcff\n"


def test_a_table_does_not_end_the_process_where_nobody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe", "standard output")

    monkeypatch.setattr(sys, "stdout", Gone())
    with pytest.raises(BrokenPipeError, match="standard output"):
        show_line("text")
