"""Compiled code is kept by the sources it was made from."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mallocmuzero.env.compiled.cache import keep_compiled_code_by_source, source_digest
from mallocmuzero.env.errors import UserError


def kept_in(**variables: str) -> str:
    """Returns where a fresh process keeps compiled code."""
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"} | variables
    code = "import mallocmuzero.env.game.kernels, numba; print(numba.config.CACHE_DIR)"
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


SOURCES = {
    "env/game/rules.py": "from ..compiled.kernel import kernel\nfrom .moves import (\n    A,\n    B,\n)\n",
    "env/game/moves.py": "from ..numbers import A\nB = 1\n",
    "env/numbers.py": "A = 1\n",
    "env/pictures.py": "from .game.moves import A\n",
    "env/words.py": "A = 1\n",
    "solvers/common/walk.py": "import numba\nfrom ...env import words\n",
}


def write(folder: Path, sources: dict[str, str]) -> None:
    for name, source in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)


def test_a_changed_callee_changes_the_digest(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    before = source_digest(tmp_path)
    assert source_digest(tmp_path) == before
    for name, source in SOURCES.items():
        (tmp_path / name).write_text(source + "C = 2\n")
        assert (source_digest(tmp_path) != before) == (name != "env/pictures.py"), name
        (tmp_path / name).write_text(source)
    assert source_digest(tmp_path) == before


def test_comments_and_docstrings_do_not_change_the_digest(tmp_path: Path) -> None:
    write(tmp_path, SOURCES)
    before = source_digest(tmp_path)
    source = SOURCES["env/game/rules.py"]
    prose = f'"""A file.\n\nOf two paragraphs.\n"""\n\n# A comment.\n{source}    # Another.\n'
    (tmp_path / "env/game/rules.py").write_text(prose)
    assert source_digest(tmp_path) == before
    (tmp_path / "env/game/moves.py").write_text(SOURCES["env/game/moves.py"].replace("1", "1  # one"))
    assert source_digest(tmp_path) == before
    (tmp_path / "env/game/moves.py").write_text(SOURCES["env/game/moves.py"].replace("1", "2  # one"))
    assert source_digest(tmp_path) != before


def test_the_folder_is_the_users_cache(tmp_path: Path) -> None:
    folder = Path(kept_in(XDG_CACHE_HOME=str(tmp_path)))
    assert folder.parent == tmp_path / "mallocmuzero" / "compiled"
    assert folder.is_dir()


def test_old_folders_go_and_new_ones_stay(tmp_path: Path) -> None:
    compiled = tmp_path / "mallocmuzero" / "compiled"
    for name in ("old", "new"):
        (compiled / name).mkdir(parents=True)
    os.utime(compiled / "old", (0, 0))
    kept_in(XDG_CACHE_HOME=str(tmp_path))
    assert not (compiled / "old").exists()
    assert (compiled / "new").exists()


def test_a_changed_source_is_noticed_without_reading_all(tmp_path: Path) -> None:
    """The digest is kept by the sizes and times of the sources, and made anew where one changes."""
    compiled = tmp_path / "mallocmuzero" / "compiled"
    folder = kept_in(XDG_CACHE_HOME=str(tmp_path))
    (stamp,) = compiled.glob("*.digest")
    assert stamp.read_text() == Path(folder).name
    assert kept_in(XDG_CACHE_HOME=str(tmp_path)) == folder
    stamp.write_text("0123456789abcdef")  # believed, so it is read
    assert kept_in(XDG_CACHE_HOME=str(tmp_path)) == str(compiled / "0123456789abcdef")
    stamp.write_text("nonsense")
    assert kept_in(XDG_CACHE_HOME=str(tmp_path)) == folder


def test_a_folder_of_the_users_own_choice_stands(tmp_path: Path) -> None:
    assert kept_in(NUMBA_CACHE_DIR=str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_without_a_place_a_temporary_one_serves(variable: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "temporary").mkdir()
    # A process that it starts keeps code in the same folder, says nothing, and leaves the folder there.
    code = """if True:
        import os, subprocess, sys
        import mallocmuzero.env.compiled, numba
        print(numba.config.CACHE_DIR, flush=True)
        inner = "import os, mallocmuzero.env.compiled, numba; print(numba.config.CACHE_DIR)"
        subprocess.run([sys.executable, "-c", inner], check=True)
        print(os.path.isdir(numba.config.CACHE_DIR))
    """
    environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
    environment |= {variable: str(tmp_path / "file"), "TMPDIR": str(tmp_path / "temporary")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    mine, theirs, still_there = done.stdout.splitlines()
    assert mine == theirs
    assert Path(mine).parent == tmp_path / "temporary"
    assert still_there == "True"
    assert not Path(mine).exists()
    (line,) = done.stderr.splitlines()
    assert line.startswith("mallocmuzero: compiled code is not kept, so every command compiles anew: ")
    assert f"{tmp_path / 'file'}" in line
    assert f"; set {variable} to a folder that can be written" in line


def test_without_any_place_the_variables_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: str) -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "mkdtemp", fail)
    with pytest.raises(UserError, match=r"No usable temporary directory found.*; set XDG_CACHE_HOME or TMPDIR to one"):
        keep_compiled_code_by_source()
