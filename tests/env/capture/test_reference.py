"""`PKG.MODULE:FUNCTION` is checked without running any of it, and before an environment is made."""

from pathlib import Path

import pytest

from mallocmuzero.env.capture import capture as capture_module
from mallocmuzero.env.capture.reference import check_reference
from mallocmuzero.env.errors import UserError

SOURCES = {
    "model.py": "raise SystemExit\ndef training_step(): ...\nother = training_step\nif x:\n    def hidden(): ...\n",
    "everything.py": "from model import *\n",
    "broken.py": "def f(:\n",
    "package/__init__.py": "raise SystemExit('run')\n",
    "package/inner.py": "from .far import near as close\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, source in SOURCES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "reference", ["model:training_step", "model:other", "model:hidden", "everything:any", "package.inner:close"]
)
def test_what_is_there(folder: Path, reference: str) -> None:
    check_reference(reference, folder)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nomod:f", "no module 'nomod' in /"),
        ("package.nomod:f", r"no module 'package\.nomod'"),
        ("model.inner:f", r"model\.py: is no package"),
        ("model:training_stepp", r"defines no function 'training_stepp'; did you mean training_step\?"),
        ("package.inner:near", r"inner\.py: defines no function 'near'"),
        ("broken:f", r"broken\.py:1: SyntaxError"),
        ("model", r"is no PKG\.MODULE:FUNCTION"),
        ("model.py:other", r"names a file; name its module: model:other"),
        ("./pkg/model.py:other", r"names a file; name its module: pkg.model:other"),
        ("/home/me/model.py:other", r"names a file; go to /home/me and name its module: model:other"),
        ("../model.py:other", r"names a file; go to \.\. and name its module: model:other"),
        ("./package/inner.py:close", r"name its module: package\.inner:close"),
    ],
)
def test_what_is_not(folder: Path, reference: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_reference(reference, folder)


def test_modules_are_found_on_the_python_path(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(UserError, match="no module 'model'"):
        check_reference("model:other", elsewhere)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    check_reference("model:other", elsewhere)


def test_no_environment_is_made_for_a_module_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_module, "find_interpreter", lambda *given: pytest.fail("an environment was made"))
    with pytest.raises(UserError, match="no module 'nomod'"):
        capture_module.capture("nomod:f", "v5e", tmp_path / "x.json.gz")
