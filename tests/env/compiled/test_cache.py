"""Compiled code is kept by the sources it was made from."""

import os
import subprocess
import sys
from pathlib import Path

from mallocmuzero.env.compiled.cache import source_digest


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


def test_without_a_place_numba_chooses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert kept_in(XDG_CACHE_HOME=str(tmp_path / "file")) == ""
