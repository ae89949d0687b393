"""The examples: notebooks run from top to bottom, and a step for `tune` is what its library compiles."""

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from compiler_cases import real_python

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


def test_the_keras_step_is_what_fit_compiles(tmp_path: Path) -> None:
    """Options name instructions, so the step that is tuned has to be the one that trains."""
    modules = {}
    calls = {
        "fit": "keras_fit.make_model().fit(*keras_fit.data(1), batch_size=keras_fit.BATCH, verbose=0)",
        "step": "function, arguments = keras_fit.step(); function.lower(*arguments).compile()",
    }
    for name, call in calls.items():
        settings = {"JAX_PLATFORMS": "cpu", "JAX_DUMP_IR_TO": str(tmp_path / name), "JAX_COMPILATION_CACHE_DIR": ""}
        small = "keras_fit.BATCH, keras_fit.FRAMES, keras_fit.SIDE = 2, 2, 8"
        command = [str(real_python()), "-c", f"import keras_fit; {small}; {call}"]
        subprocess.run(command, cwd=EXAMPLES, env=os.environ | settings, check=True)
        (dumped,) = (tmp_path / name).glob("*_jit_train_step_compile.mlir")
        lines = dumped.read_text(encoding="utf-8").splitlines()
        # Places in source files differ.
        modules[name] = [line.partition(" loc(")[0] for line in lines if not line.startswith("#loc")]
    assert "convolution" in "".join(modules["fit"])
    assert modules["fit"] == modules["step"]
