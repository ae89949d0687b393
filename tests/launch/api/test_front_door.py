"""`import mallocmuzero`: light, complete, and the same as the commands."""

import inspect
import json
import pydoc
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from compiler_cases import real_python, recorded
from launch_cases import call

import mallocmuzero
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.program.program_file import read_module, read_program

RESULTS = ("Bounded", "Solved", "Tuned", "Verified")
FUNCTIONS = ("bound", "capture", "load", "solve", "tune", "verify")


def test_importing_it_loads_nothing() -> None:
    code = (
        "import sys\nbefore = set(sys.modules)\nimport mallocmuzero\n"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))\n"
        "assert mallocmuzero.__version__ and set(mallocmuzero.__all__) <= set(dir(mallocmuzero))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['mallocmuzero']"


def test_help_is_a_page() -> None:
    page = pydoc.render_doc(mallocmuzero, renderer=pydoc.plaintext)
    for name in FUNCTIONS:
        assert f"    {name}(" in page, name
    for name in mallocmuzero.__all__:
        found = getattr(mallocmuzero, name)
        assert name == "__version__" or inspect.getdoc(found), name
    for name in RESULTS:
        document = inspect.getdoc(getattr(mallocmuzero, name)) or ""
        attributes = document.partition("Attributes:")[2]
        for field in fields(getattr(mallocmuzero, name)):
            assert field.name in attributes, (name, field.name)
    with pytest.raises(AttributeError, match="has no attribute 'slove'"):
        _ = mallocmuzero.slove


def test_the_module_is_the_command_line() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mallocmuzero", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == f"mallocmuzero {mallocmuzero.__version__}"


def test_solve_verify_and_save(tmp_path: Path) -> None:
    solved = mallocmuzero.solve(
        "tiny", solver="restarts", evaluations=300, objective="msa", output=tmp_path / "a.json.gz"
    )
    assert solved.latency_us["msa"] == pytest.approx(solved.judged_us)
    assert solved.production_us is not None
    assert solved.of_production == pytest.approx(solved.judged_us / solved.production_us["msa"])
    assert mallocmuzero.verify("tiny", solved.mapping)
    solved.save(tmp_path / "b.json.gz")
    assert (tmp_path / "b.json.gz").read_bytes() == (tmp_path / "a.json.gz").read_bytes()
    # The command says the same.
    arguments = (
        "--solver",
        "restarts",
        "--evaluations",
        "300",
        "--objective",
        "msa",
        "-o",
        str(tmp_path / "c.json.gz"),
    )
    status, text, _ = call("solve", "tiny", *arguments, "--json", "-")
    assert status == 0
    assert json.loads(text) == {**json.loads(json.dumps(solved.as_json())), "seconds": json.loads(text)["seconds"]}
    assert (tmp_path / "c.json.gz").read_bytes() == (tmp_path / "a.json.gz").read_bytes()


def test_robust_figures_are_ratios_and_measured_microseconds(tmp_path: Path) -> None:
    status, text, _ = call(
        *("solve", "resnet50-b128", "--solver", "restarts", "--evaluations", "50", "-o", str(tmp_path / "m.json.gz"))
    )
    assert status == 0
    status, said, _ = call(
        *("solve", "resnet50-b128", "--solver", "restarts", "--evaluations", "50", "-o", str(tmp_path / "m.json.gz")),
        *("--json", "-"),
    )
    result = json.loads(said)
    assert result["objective"] == "robust"
    assert result["latency_us"] != pytest.approx(result["model_us"]["msa"])  # the worse ratio is that of cycles
    for us in result["model_us"].values():
        assert f"{us:,.2f}" in text
    assert f"{result['latency_us']:,.2f}" not in text
    assert f"{100 * result['of_production']:.2f} %" in text
    assert "production, best flags" in text


def test_verify_says_what_is_wrong() -> None:
    program = mallocmuzero.load("tiny")
    assert program.production is not None
    good, other = mallocmuzero.verify(program, all_hbm(program)), mallocmuzero.verify("tiny", "production")
    assert good
    assert other.of_production["msa"] == pytest.approx(1.0)
    from dataclasses import replace

    bad = mallocmuzero.verify(program, replace(program.production, copies=program.production.copies[1:]))
    assert not bad
    assert bad.violations
    assert "not verified" in str(bad)
    assert str(bad.violations[0]) in str(bad)


def test_bound_is_below_what_it_meets() -> None:
    found = mallocmuzero.bound("tiny", objective="msa", seconds=20)
    ratios = found.of_production
    assert ratios["floor"] <= ratios["bound"] <= ratios["best"] <= ratios["production"] == 1.0
    assert mallocmuzero.verify("tiny", found.mapping)
    assert found.gap == pytest.approx(1 - ratios["bound"] / ratios["best"])
    assert f"{100 * ratios['bound']:.2f} %" in str(found)


def test_results_show_themselves() -> None:
    solved = mallocmuzero.solve("tiny", solver="greedy", evaluations=5, objective="msa")
    html = solved._repr_html_()
    assert html.count("<tr>") == 1 + len(list(solved.rows()))
    assert f"<td>{100 * solved.of_production:.2f} %</td>" in html
    assert "\n" not in repr(solved)
    assert "best flags" in str(solved)
    assert repr(solved.program) == "Program('tiny', v5e: 9 instructions, 22 buffers, 34 accesses)"


@pytest.mark.parametrize(
    ("call_it", "message"),
    [
        (lambda: mallocmuzero.solve("tinyy"), "did you mean tiny"),
        (lambda: mallocmuzero.solve("tiny", output="/nowhere/x.json.gz"), "there is no folder /nowhere"),
        (lambda: mallocmuzero.bound("tiny", seconds=0), "a bound needs time"),
        (lambda: mallocmuzero.bound("tiny", scope="all"), "no scope is called 'all'"),
        (lambda: mallocmuzero.tune("m:f", minutes=0), "there is no time"),
        (lambda: mallocmuzero.tune("m:f", target="v9"), "no target is called 'v9'"),
        (lambda: mallocmuzero.tune("m:f", python="/no/python"), "there is no such program"),
        (lambda: mallocmuzero.capture(len), "arguments is missing"),
        (lambda: mallocmuzero.capture("m:f", (1,)), "returns its own; leave them out"),
        (lambda: mallocmuzero.capture(3, (1,)), "function is a int"),
        (lambda: mallocmuzero.capture("nomod:f"), "no module 'nomod'"),
    ],
)
def test_what_cannot_be_used_is_said_at_once(call_it, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(mallocmuzero.UserError, match=message):
        call_it()


def test_a_function_of_this_process_is_lowered_here(tmp_path: Path) -> None:
    """The recorded compiler is given the module, and no name to import."""
    import jax
    import jax.numpy as jnp

    output = tmp_path / "small.json.gz"
    program = mallocmuzero.capture(
        lambda x: jnp.tanh(x) @ x,
        (jax.ShapeDtypeStruct((8, 8), jnp.float32),),
        python=recorded(tmp_path),
        output=output,
        name="mine",
        progress=lambda line: None,
    )
    asked = [json.loads(line)[0] for line in (tmp_path / "requests.txt").read_text().splitlines()]
    assert {Path(source).name for source in asked} == {"lowered.stablehlo"}
    assert program.name == "mine"
    module = read_module(output)
    assert module is not None
    assert b"StableHLO" in module[:40]
    assert read_program(output).sha256 == program.sha256


def test_a_function_of_this_process_is_tuned_by_the_real_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax
    import jax.numpy as jnp

    python = real_python()

    def step(x, weights):  # type: ignore[no-untyped-def]
        skips = []
        for w in weights:
            x = jax.nn.relu(x @ w)
            skips.append(x)
        return sum(skips)

    arguments = (
        jax.ShapeDtypeStruct((65536, 256), jnp.bfloat16),
        [jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)] * 8,
    )
    quiet = {"python": python, "progress": lambda line: None}
    tuned = mallocmuzero.tune(step, arguments, minutes=1, solver="order-search", **quiet)
    assert tuned.options
    assert tuned.confirmed_us["msa"] < tuned.default_us["msa"]
    assert tuned.gain_percent["msa"] > 0
    # The compiler's own interpreter, with another version of JAX, lowers it to the same program, so that options fit.
    source = (
        "import jax, jax.numpy as jnp\ndef step():\n    def f(x, weights):\n        skips = []\n"
        "        for w in weights:\n            x = jax.nn.relu(x @ w)\n            skips.append(x)\n"
        "        return sum(skips)\n"
        "    return f, (jax.ShapeDtypeStruct((65536, 256), jnp.bfloat16),"
        " [jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)] * 8)\n"
    )
    (tmp_path / "their_model.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    theirs = mallocmuzero.capture("their_model:step", quick=True, **quiet)
    assert theirs.sha256 == tuned.program.sha256
