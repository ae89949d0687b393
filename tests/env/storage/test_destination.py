"""Places where nothing can be written are found before any work."""

import socket
from pathlib import Path

import pytest

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.storage.destination import check_destination, check_new_folder
from mallocmuzero.env.storage.gunzip import gunzip


def test_a_place_that_can_be_written_stays_as_it_is(tmp_path: Path) -> None:
    there = tmp_path / "there.json"
    there.write_text("old", encoding="utf-8")
    for path in (there, tmp_path / "new.json", "/dev/null", None):
        check_destination(path, "-o")
    assert there.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["there.json"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "is a folder; give a file in it"),
        ("no/x.json", r"there is no folder .*no; make it first"),
        ("file/x.json", "cannot be written"),
        ("/proc/x.json", r"-o /proc/x\.json: cannot be written"),  # refuses also the superuser
        ("x" * 256, r"cannot be written \(File name too long\)"),
    ],
)
def test_a_place_that_cannot(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=message):
        check_destination(tmp_path / path, "-o")


def test_a_new_folder(tmp_path: Path) -> None:
    check_new_folder(tmp_path / "new")
    check_new_folder(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"--keep .* is not empty"):
        check_new_folder(tmp_path, "--keep")
    with pytest.raises(UserError, match="is a file; give a new folder"):
        check_new_folder(tmp_path / "file")
    with pytest.raises(UserError, match="there is no folder"):
        check_new_folder(tmp_path / "no" / "new")
    with pytest.raises(UserError, match=r"cannot be read \(File name too long\)"):
        check_new_folder(tmp_path / ("x" * 256))


def test_a_socket_takes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(UserError, match="-o socket: is no file, and takes no data; choose another place"):
            check_destination("socket", "-o")


def test_a_file_that_is_not_compressed_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "program.json"
    path.write_text(' {"format": 1}', encoding="utf-8")
    with pytest.raises(FormatError, match=r"is JSON that is not compressed; `gzip .*program\.json` makes"):
        gunzip(path, 100, "program")
    named = path.rename(tmp_path / "program.json.gz")
    with pytest.raises(FormatError, match=r"`mv .*json\.gz .*json && gzip .*json` compresses"):
        gunzip(named, 100, "program")
