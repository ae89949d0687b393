"""The notebooks in `examples` run from top to bottom, show what they say, and hold what they showed."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["nbformat"] == 4
    return [cell for cell in document["cells"] if cell["cell_type"] == kind]


def run(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does; returns the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def test_the_notebook_runs_and_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    path = EXAMPLES / "tune_your_model.ipynb"
    names: dict[str, Any] = {}
    for cell in cells(path, "code"):
        value = run("".join(cell["source"]), names)
        shown = {kind for output in cell["outputs"] for kind in output.get("data", {})}
        assert all(output["output_type"] != "error" for output in cell["outputs"])
        if "image/png" in shown:
            assert value._repr_png_().startswith(b"\x89PNG")
        if "text/html" in shown:
            assert value._repr_html_().startswith("<table>")
        if shown:
            assert repr(value)
    solved, bounded = names["solved"], names["bounded"]
    assert bounded.of_production["bound"] <= solved.of_production < 1.0
    assert "slower than the best one" in capsys.readouterr().out
    lowered = names["jax"].jit(names["step"]).lower(*names["arguments"])
    assert "dot_general" in lowered.as_text()


def test_what_the_notebook_only_shows_is_understood() -> None:
    import inspect

    import mallocmuzero

    text = "\n".join("".join(cell["source"]) for cell in cells(EXAMPLES / "tune_your_model.ipynb", "markdown"))
    (fence,) = [part.partition("```")[0] for part in text.split("```python\n")[1:]]
    calls = [node for node in ast.walk(ast.parse(fence)) if isinstance(node, ast.Call)]
    (tune,) = [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "tune"]
    keywords = {keyword.arg: None for keyword in tune.keywords}
    inspect.signature(mallocmuzero.tune).bind(*tune.args, **keywords)
