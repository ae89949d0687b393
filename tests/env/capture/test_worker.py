"""Mistakes in the user's function, as the worker reports them."""

import sys
from pathlib import Path

import pytest

from mallocmuzero.env.capture import worker


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:f", "no module 'no_such_module'"),
        ("needs_more:f", "module 'needs_more' needs 'no_such_package'"),
        ("broken:f", "broken.py:1: in <module>: ZeroDivisionError: division by zero, at `1 / 0`"),
        ("fine:g", "module 'fine' has no function 'g'"),
        ("fine:raises", "fine.py:1: in raises: KeyError: 'weights'"),
        ("fine:one", "fine:one() returned int, not a pair (function, arguments)"),
        ("fine:wrong", "fine:wrong() returned arguments of type int, not a tuple"),
    ],
)
def test_what_the_user_can_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reference: str, message: str
):
    (tmp_path / "needs_more.py").write_text("import no_such_package\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    functions = "def raises(): raise KeyError('weights')\ndef one(): return 1\ndef wrong(): return len, 1\n"
    (tmp_path / "fine.py").write_text(functions, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("needs_more", "broken", "fine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as raised:
        worker.describe(reference)
    assert raised.value.code == worker.USER_ERROR
    assert message in capsys.readouterr().out
