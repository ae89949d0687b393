"""No file that is read can run code: nothing unpickles, and NumPy is told not to."""

import ast
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
_CALLS = {"eval", "exec", "compile", "__import__"}


def findings(text: str) -> list[str]:
    """Returns the calls and imports of a source that could run code from a file."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name.split(".")[0] in _MODULES]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in _MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if isinstance(node.func, ast.Name) and name in _CALLS:
                found.append(name)
            # `numpy.load` alone; `json.load` and others know no pickles.
            owner = getattr(getattr(node.func, "value", None), "id", "")
            safe = any(
                word.arg == "allow_pickle" and getattr(word.value, "value", 1) is False for word in node.keywords
            )
            if name == "load" and owner in ("np", "numpy") and not safe:
                found.append("numpy.load without allow_pickle=False")
    return found


@pytest.mark.parametrize("room", ["env", "solvers", "actors", "replay", "learner", "roundtrip", "launch"])
def test_no_source_unpickles(room: str) -> None:
    assert {str(path): found for path in (ROOT / room).rglob("*.py") if (found := findings(path.read_text()))} == {}


def test_what_is_looked_for_is_found() -> None:
    assert findings("import pickle") == ["pickle"]
    assert findings("from cloudpickle import loads") == ["cloudpickle"]
    assert findings("x = eval(text)") == ["eval"]
    assert findings("np.load(file)") == ["numpy.load without allow_pickle=False"]
    assert findings("np.load(file, allow_pickle=False)") == []


def test_numpy_refuses_a_pickle_where_we_read() -> None:
    stream = io.BytesIO()
    np.savez(stream, a=np.array([{}], object))
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as columns, pytest.raises(ValueError, match="allow_pickle=False"):
        _ = columns["a"]
    assert pickle.loads(pickle.dumps(1)) == 1  # A pickle would have been read.
