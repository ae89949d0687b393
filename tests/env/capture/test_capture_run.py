"""Running the compiler in another interpreter: everything that can go wrong there says so in one line."""

import gzip
import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mallocmuzero.env.capture import environment, worker
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.compilations import Archive
from mallocmuzero.env.capture.compiler import ASSIGNMENT, CODE, LOWERING
from mallocmuzero.env.capture.complete import complete
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program import compiler_flags
from mallocmuzero.env.program.program_file import read_module, read_program, write_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import MODELS_PARENT, load
from mallocmuzero.env.workloads.regenerate import main as regenerate

SMALL = Path(__file__).parent / "data" / "small"


def interpreter(folder: Path, script: str) -> Path:
    """Returns an executable that stands for a Python; it runs `worker.py FUNCTION TOPOLOGY FOLDER`."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def recorded(folder: Path, change: str = "") -> Path:
    """Returns an executable that answers every request of the worker's protocol with the recorded compilation.

    Args:
      folder: for the executable, and for `requests.txt`, one line per request.
      change: Python that sees `request`, `options` and `made`, the folder to fill, once it is filled.
    """
    code = f"""
import json, shutil, sys
from pathlib import Path
Path(sys.argv[4], "versions.json").write_text('{{"jax": "1", "libtpu": "2"}}')
for line in sys.stdin:
    request = json.loads(line)
    options, made = request["options"], Path(request["folder"])
    with Path({str(folder)!r}, "requests.txt").open("a") as file:
        file.write(line)
    shutil.copytree({str(SMALL)!r}, made, dirs_exist_ok=True)
    if request["through"] == "lowering":
        (made / "module.stablehlo").write_bytes(b"a module")
    error = None
{textwrap.indent(change, "    ")}
    print("some module says this without a line's end", end="")
    print("\\ncapture-done: " + json.dumps({{"error": error, "cpu_s": 20.0}}), flush=True)
"""
    (folder / "recorded.py").write_text(code, encoding="utf-8")
    return interpreter(folder, f"exec {sys.executable} {folder}/recorded.py $@")


def failure(tmp_path: Path, script: str, function: str = "models:tiny", **options: float) -> str:
    with pytest.raises(UserError) as raised:
        capture(
            function,
            "v5e",
            tmp_path / "out.json.gz",
            python=interpreter(tmp_path, script),
            progress=lambda line: None,
            time_limit_s=options.get("time_limit_s", 60.0),
        )
    assert not (tmp_path / "out.json.gz").exists()
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_working_compiler(tmp_path: Path):
    python = recorded(tmp_path)
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    keep = tmp_path / "kept"
    program = capture("models:my_step", "v5e", output, python=python, keep=keep, progress=said.append)
    assert (program.name, program.family) == ("my-step", "my-step")
    assert program.provenance == {
        "function": "models:my_step",
        "topology": "v5e:1x1",
        "compiler_options": {},
        "jax": "1",
        "libtpu": "2",
    }
    assert load(output).sha256 == program.sha256
    assert read_module(output) == b"a module"
    assert (keep / "default" / "log.txt").exists()
    assert [line.split()[0] for line in said] == ["compiling", "compiled", "wrote"]
    assert (program.cycles, program.variants) == (None, ())
    with pytest.raises(UserError, match="is not empty"):
        capture("models:my_step", "v5e", output, python=python, keep=keep, progress=said.append)


def test_what_the_worker_says_is_passed_on(tmp_path: Path):
    message = failure(tmp_path, f"echo '{worker.MARK}models:tiny() raised ValueError: no weights'; exit 3")
    assert message == "models:tiny() raised ValueError: no weights"


def test_a_crash_is_named(tmp_path: Path):
    message = failure(tmp_path, "echo 'F0101 00:00:00.0 1 x.cc:1] Check failed: oops' >&2; kill -SEGV $$")
    assert "models:tiny: the compilation was killed by SIGSEGV" in message
    assert "Check failed: oops" in message


def test_a_process_that_is_ended_is_tried_once_more(tmp_path: Path):
    again = f"echo run >> {tmp_path}/runs; test $(wc -l < {tmp_path}/runs) -ge"
    assert "killed by SIGTERM" in failure(tmp_path, f"{again} 9 || kill -TERM $$")
    assert (tmp_path / "runs").read_text(encoding="utf-8").splitlines() == ["run"] * 2
    recorded(tmp_path)
    python = interpreter(tmp_path, f"{again} 4 || kill -TERM $$; exec {sys.executable} {tmp_path}/recorded.py $@")
    capture("models:tiny", "v5e", tmp_path / "out.json.gz", python=python, progress=lambda line: None)


def test_a_failure_without_a_word(tmp_path: Path):
    assert "the compilation ended with status 7" in failure(tmp_path, "exit 7")


def test_an_endless_compilation_is_stopped(tmp_path: Path):
    message = failure(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 600", time_limit_s=0.5)
    assert "not compiled after 0 s" in message or "not compiled after 1 s" in message
    pid = int((tmp_path / "pid").read_text(encoding="utf-8"))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_compilation_that_logs_nothing(tmp_path: Path):
    python = recorded(tmp_path, '(made / "log.txt").write_text("")')
    with pytest.raises(FormatError, match="has no `Initial resource` lines"):
        capture("models:tiny", "v5e", tmp_path / "out.json.gz", python=python, progress=lambda line: None)
    assert not (tmp_path / "out.json.gz").exists()


def requests(folder: Path) -> list[dict[str, Any]]:
    """Returns what the recorded compiler was asked for."""
    return [json.loads(line) for line in (folder / "requests.txt").read_text(encoding="utf-8").splitlines()]


def test_variants_and_cycles(tmp_path: Path):
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    # One variant crashes the compiler, one is refused, one schedules another instruction.
    change = f"""
if list(options) == [{compiler_flags.CROSS_PROGRAM!r}]:
    print("F0101 Check failed: oops", file=sys.stderr, flush=True)
    import os; os.kill(os.getpid(), 11)
if len(options) == 3:
    error = "the TPU compiler refused: XlaRuntimeError: no"
if {compiler_flags.LOOP_OPTIMISER!r} in options:
    log = made / "log.txt"
    log.write_text(log.read_text().replace("Initial resource[2]", "Initial resource[999]"))
"""
    archive = Archive(tmp_path / "archive", {"function": "f"})
    python = recorded(tmp_path, change)
    program = capture("models:f", "v5e", output, python=python, passes=3, archive=archive, progress=said.append)
    assert program.variants[0].options == {}
    assert program.production is not None
    latency_s = program.variants[0].latency_s
    assert latency_s["msa"] == simulate(program, program.target, program.production).latency_s
    reasons = {str(left["options"]): left["reason"] for left in program.compiler["variants_left_out"]}
    assert len(reasons) == 2
    assert any("killed by SIGSEGV (F0101 Check failed: oops)" in reason for reason in reasons.values())
    assert any("the TPU compiler refused" in reason for reason in reasons.values())
    assert len(program.variants) + len(reasons) == len(compiler_flags.flag_grid())
    for variant in program.variants[1:]:
        changed = compiler_flags.LOOP_OPTIMISER in variant.options
        assert variant.inexpressible == ({"another schedule": 1} if changed else {})
        assert variant.latency_s == ({"msa": None, "cycles": None} if changed else latency_s)
        assert variant.mapping is None  # none is better than the default
    asked = requests(tmp_path)
    assert [request["through"] for request in asked] == [CODE, LOWERING, CODE, *[ASSIGNMENT] * 7, CODE, CODE]
    assert [request["dump"] for request in asked] == [True] + [False] * (len(asked) - 1)
    again = read_program(output)
    assert [v.options for v in again.variants] == [v.options for v in program.variants]
    # A second time, only what failed is asked for again.
    before = output.read_bytes()
    capture("models:f", "v5e", output, python=python, passes=3, archive=archive, progress=said.append)
    assert output.read_bytes() == before
    assert len(requests(tmp_path)) - len(asked) == 2


def test_an_interpreter_that_is_none(tmp_path: Path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UserError, match=r"cannot be run \(.*\); give --python an interpreter"):
            capture("models:tiny", "v5e", tmp_path / "x.json.gz", python=path, progress=lambda line: None)


@pytest.mark.parametrize(
    ("function", "target", "message"),
    [
        ("models.tiny", "v5e", "is no PKG.MODULE:FUNCTION"),
        ("models:tiny", "v9", "no target is called 'v9'; the targets are v4, v5e"),
    ],
)
def test_bad_arguments(tmp_path: Path, function: str, target: str, message: str):
    with pytest.raises(UserError, match=message):
        capture(function, target, tmp_path / "x.json.gz", python=Path(sys.executable))


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(UserError, match="there is no folder"):
        capture("models:tiny", "v5e", tmp_path / "no" / "x.json.gz", python=Path(sys.executable))


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="this interpreter has libtpu")
def test_an_interpreter_without_libtpu(tmp_path: Path):
    with pytest.raises(UserError, match=r"cannot import (libtpu|jax): install jax and libtpu there"):
        capture("models:tiny", "v5e", tmp_path / "x.json.gz", python=Path(sys.executable), progress=lambda line: None)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:f", "no module 'no_such_module'"),
        ("needs_more:f", "module 'needs_more' needs 'no_such_package'"),
        ("broken:f", "importing module 'broken' raised ZeroDivisionError"),
        ("fine:g", "module 'fine' has no function 'g'"),
        ("fine:raises", "fine:raises() raised KeyError: 'weights'"),
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


def test_importing_capture_imports_no_jax():
    code = "import sys, mallocmuzero.env.capture.capture, mallocmuzero.env.workloads; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_managed_environment_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ran: list[list[str]] = []

    def pretend(command: list[str]) -> None:
        ran.append(command)
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
            (Path(command[-1]) / "bin" / "python").touch()

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(environment, "_run", pretend)
    said: list[str] = []
    python = environment.managed_python(said.append)
    assert python.is_relative_to(tmp_path / "mallocmuzero")
    assert "making the capture environment" in said[0]
    assert f"libtpu=={environment.packages()['libtpu']}" in ran[1]
    assert environment.managed_python(said.append) == python
    assert len(ran) == 2


def test_a_managed_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(environment, "packages", lambda: {"no-such-package-at-all": "0.0.0"})
    monkeypatch.setattr(
        environment.sys, "executable", str(interpreter(tmp_path, "echo 'ERROR: no network' >&2; exit 1"))
    )
    with pytest.raises(
        UserError, match=r"cannot make the capture environment: .* failed: ERROR: no network; give --python"
    ):
        environment.managed_python(lambda line: None)


def test_regenerate_needs_a_known_name(capsys: pytest.CaptureFixture[str]):
    assert regenerate(["no-such-workload"]) == 2
    assert "no workload is called 'no-such-workload'" in capsys.readouterr().err


def _real_python() -> Path | None:
    """Returns the interpreter with jax and libtpu that the user names for this test, or None."""
    named = os.environ.get("MALLOCMUZERO_CAPTURE_PYTHON")
    return Path(named) if named else None


def test_the_real_compiler_gives_the_committed_program(tmp_path: Path):
    python = _real_python()
    if python is None:
        pytest.skip("MALLOCMUZERO_CAPTURE_PYTHON names no interpreter with jax and libtpu")
    if subprocess.run([python, "-c", "import libtpu"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no libtpu")
    output = tmp_path / "tiny.json.gz"
    program = capture("models.tiny:tiny", "v5e", output, python=python, working_folder=MODELS_PARENT)
    assert program.sha256 == load("tiny").sha256
    assert program.production is not None
    assert verify(program, program.target, program.production) == []


def test_an_older_file_is_completed(tmp_path: Path):
    python, output = recorded(tmp_path), tmp_path / "small.json.gz"
    program = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    whole = output.read_bytes()
    assert program.keeps_layout is not None
    write_program(replace(program, keeps_layout=None), output)
    assert read_module(output) is None
    assert read_program(output).keeps_layout is None
    (tmp_path / "requests.txt").unlink()
    assert complete(output, "models:my_step", "v5e:1x1", python) == [
        "the lowered module",
        "which copies keep their layout",
    ]
    assert output.read_bytes() == whole
    assert [request["through"] for request in requests(tmp_path)] == [LOWERING, ASSIGNMENT]
    assert complete(output, "models:my_step", "v5e:1x1", python) == []
    # A module that is there stays, and is what is compiled.
    write_program(replace(program, keeps_layout=None), output, b"a module")
    (tmp_path / "requests.txt").unlink()
    assert complete(output, "models:my_step", "v5e:1x1", python) == ["which copies keep their layout"]
    assert output.read_bytes() == whole
    assert [request["through"] for request in requests(tmp_path)] == [ASSIGNMENT]
    # One that was damaged is made anew, as the message about it says.
    document = json.loads(gzip.decompress(whole))
    document["module"]["sha256"] = "0" * 64
    output.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(FormatError, match="capture --complete"):
        read_module(output)
    assert complete(output, "models:my_step", "v5e:1x1", python) == ["the lowered module"]
    assert output.read_bytes() == whole
    # A function that compiles to another program is refused, and the file is as it was.
    other = tmp_path / "other.json.gz"
    write_program(replace(program, compute_s=program.compute_s * 2.0, production=None), other)
    before = other.read_bytes()
    with pytest.raises(UserError, match="models:my_step compiles to another program"):
        complete(other, "models:my_step", "v5e:1x1", python)
    assert other.read_bytes() == before


def test_a_file_goes_without_a_module_that_cannot_be_had(tmp_path: Path):
    change = 'if request["through"] == "lowering": error = "the lowered module cannot be kept: no"'
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    capture("models:my_step", "v5e", output, python=recorded(tmp_path, change), progress=said.append)
    assert read_module(output) is None
    assert any("goes without the lowered module" in line and "cannot be kept: no" in line for line in said)
