"""A file is written whole or not at all; what is no file is written as what it is, and a link stays a link."""

import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.storage.destination import check_destination


def write(path: Path, data: bytes = b"new") -> None:
    """Writes as a command does: the path is checked before."""
    check_destination(path, "-o")
    write_atomically(path, data)


def test_a_link_stays_and_its_file_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "file", tmp_path / "link"
    link.symlink_to("there/file")
    (tmp_path / "again").symlink_to("link")
    for data in (b"no file yet", b"a file"):
        write(tmp_path / "again", data)
        assert target.read_bytes() == data
        assert link.is_symlink()
    assert [path.name for path in target.parent.iterdir()] == ["file"]


def test_a_link_that_leads_nowhere_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "lost").symlink_to("no/file")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(UserError, match=r"-o .*lost: there is no folder .*no; make it first"):
        check_destination(tmp_path / "lost", "-o")
    with pytest.raises(UserError, match=r"-o .*circle: cannot be written"):
        check_destination(tmp_path / "circle", "-o")
    with pytest.raises(UserError, match=r"circle: cannot be written"):
        write_atomically(tmp_path / "circle", b"new")
    assert (tmp_path / "circle").is_symlink()


@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_stays_a_pipe(tmp_path: Path, linked: bool) -> None:
    pipe, path = tmp_path / "pipe", tmp_path / ("link" if linked else "pipe")
    os.mkfifo(pipe)
    if linked:
        path.symlink_to(pipe)
    with ThreadPoolExecutor() as threads:
        # A reader that does not wait for a writer, so that a failed test ends.
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        threads.submit(write, path).result()
        assert os.read(reader, 100) == b"new"
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_stays_a_device(tmp_path: Path) -> None:
    """A terminal: nothing can take its place, not even if this test fails and runs as root."""
    ours, other = os.openpty()
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(other))
    for path in (Path(os.ttyname(other)), link):
        write(path)
        assert os.read(ours, 100) == b"new"
    assert link.is_symlink()
    assert stat.S_ISCHR(link.stat().st_mode)
    os.close(ours)
    os.close(other)


def test_a_folder_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be written \(Is a directory\)"):
        write_atomically(tmp_path, b"new")


@pytest.mark.parametrize("kind", ["pipe", "file", "nameless"])
def test_standard_output_is_written(tmp_path: Path, kind: str) -> None:
    script = (
        "from pathlib import Path; from mallocmuzero.env.storage.atomic import write_atomically;"
        "write_atomically(Path('/proc/self/fd/1'), b'new')"
    )
    command, path = [sys.executable, "-c", script], tmp_path / "out"
    if kind == "pipe":
        assert subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout == b"new"
        return
    with path.open("w+b") as out:
        if kind == "nameless":
            path.unlink()
        subprocess.run(command, stdout=out, check=True)
        assert (out.read() if kind == "nameless" else path.read_bytes()) == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ([] if kind == "nameless" else ["out"])


@pytest.mark.parametrize("name", ["x" * 255, "\u00e4" * 127])
def test_the_longest_names_are_written(tmp_path: Path, name: str) -> None:
    write(tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"new"
    with pytest.raises(UserError, match=r"-o .*cannot be written \(File name too long\)"):
        check_destination(tmp_path / (name + "xx"), "-o")


def test_a_temporary_file_is_a_hidden_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of run directories leave those out."""
    seen: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(path.name for path in tmp_path.iterdir()))
    write(tmp_path / "file")
    assert len(seen) == 1
    assert seen[0].startswith(".")
