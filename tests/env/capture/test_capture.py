"""Capturing a function: the program file, and one line for everything that can go wrong with the compiler."""

import errno
import importlib.util
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler_cases import interpreter, real_python, recorded, requests

from mallocmuzero.env.capture import compilations, worker
from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.compiler import ASSIGNMENT, CODE
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.compiler_flags import KEEPS, NAMING, REFUSED
from mallocmuzero.env.program.program import RESULT, Program
from mallocmuzero.env.program.program_file import read_module, read_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import MODELS_PARENT, load


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


def test_results_that_always_go_to_hbm_are_counted(tmp_path: Path):
    line = "I0101 00:00:00.000000 1 algorithm.cc:8386] Adding required assignment: <7 slice.4> at 8 at def"
    python, said = recorded(tmp_path, f'Path(made, "log.txt").open("a").write("{line}\\n")'), list[str]()
    program = capture("models:my_step", "v5p", tmp_path / "small.json.gz", python=python, progress=said.append)
    results = int(np.count_nonzero(program.access_kind == RESULT))
    assert f"1 of {results} results always go to HBM" in said


def test_a_program_that_would_not_read_back_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole = Assembly.program

    def held_by_a_result(self: Assembly, **options: bool) -> Program:
        program = whole(self, **options)
        result = int(np.flatnonzero(program.access_kind == RESULT)[0])
        since = np.full(program.num_accesses, -1, np.int32)
        since[result] = 0
        return replace(program, held_since=since)

    monkeypatch.setattr(Assembly, "program", held_by_a_result)
    output = tmp_path / "small.json.gz"
    with pytest.raises(UserError) as raised:
        capture("models:my_step", "v5e", output, python=recorded(tmp_path), progress=lambda line: None)
    assert str(raised.value) == (
        "models:my_step: capture does not understand this program yet, since field `held.since[0]` is no earlier "
        "access to the buffer of an operand; please report it with the files of `mallocmuzero capture --keep FOLDER`"
    )
    assert not output.exists()


def test_a_compiler_that_stops_once_memory_is_assigned(tmp_path: Path):
    python, output = recorded(tmp_path), tmp_path / "small.json.gz"
    whole = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    quick = capture(
        "models:my_step",
        "v5e",
        output,
        python=python,
        quick=True,
        with_module=False,
        progress=lambda line: None,
    )
    assert [request["through"] for request in requests(tmp_path)] == ["code", "lowering", "assignment"]
    assert quick.sha256 == whole.sha256
    assert read_module(output) is None
    with pytest.raises(UserError, match="variants need the code generator"):
        capture("models:my_step", "v5e", output, python=python, quick=True, passes=1)


def test_a_compilation_to_the_end_tells_how_long_it_took_until_memory_was_assigned(tmp_path: Path):
    change = f"(made / ('module' + {worker.ASSIGNED!r})).touch(); time.sleep(0.2)"
    longest_s: dict[str, float] = {}
    output = tmp_path / "small.json.gz"
    python = recorded(tmp_path, change)
    capture("models:my_step", "v5e", output, python=python, longest_s=longest_s, progress=lambda line: None)
    assert 0.0 < longest_s[ASSIGNMENT] <= longest_s[CODE] - 0.2


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


@pytest.mark.parametrize(
    ("place", "name", "passes", "calls"),
    [
        (compilations, "cut_down", 0, 0),
        (compilations, "cut_down", 2, 3),  # in the middle of the variants, which would all fail
        (compilations.Archive, "store", 0, 0),
        (Path, "write_bytes", 0, 0),
        (Path, "mkdir", 0, 0),
    ],
)
def test_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, passes: int, calls: int
):
    python, output = recorded(tmp_path), tmp_path / "small.json.gz"
    whole, called = getattr(place, name), list[None]()

    def full(*given: Any, **options: Any) -> Any:
        called.append(None)
        if len(called) > calls:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(*given, **options)

    monkeypatch.setattr(place, name, full)
    archive = compilations.Archive(tmp_path / "archive", {})
    with pytest.raises(UserError, match=r"cannot be used \(No space left on device\); free some space, or set TMPDIR$"):
        capture(
            "models:f",
            "v5e",
            output,
            python=python,
            passes=passes,
            archive=archive,
            module=b"a module",
            progress=lambda line: None,
        )
    assert len(called) == calls + 1
    assert not output.exists()


def test_a_reader_who_has_gone_is_no_full_disk(tmp_path: Path):
    def gone(line: str) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    with pytest.raises(BrokenPipeError):
        capture("models:f", "v5e", tmp_path / "small.json.gz", python=recorded(tmp_path), progress=gone)


def test_a_relative_interpreter_runs_in_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "models").mkdir()
    recorded(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    output, folder = tmp_path / "small.json.gz", tmp_path / "models"
    capture("m:f", "v5e", output, python=Path("bin/python"), working_folder=folder, progress=lambda line: None)
    assert output.exists()


def test_a_compilation_that_logs_nothing(tmp_path: Path):
    python = recorded(tmp_path, '(made / "log.txt").write_text("")')
    with pytest.raises(FormatError, match="has no `Initial resource` lines"):
        capture("models:tiny", "v5e", tmp_path / "out.json.gz", python=python, progress=lambda line: None)
    assert not (tmp_path / "out.json.gz").exists()


def test_an_interpreter_that_is_none(tmp_path: Path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(UserError, match=r"(no such program|cannot be run); give an interpreter"):
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


def test_importing_capture_imports_no_jax():
    code = "import sys, mallocmuzero.env.capture.capture, mallocmuzero.env.workloads; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_goes_without_a_module_that_cannot_be_had(tmp_path: Path):
    change = 'if request["through"] == "lowering": error = "the lowered module cannot be kept: no"'
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    capture("models:my_step", "v5e", output, python=recorded(tmp_path, change), progress=said.append)
    assert read_module(output) is None
    assert any("goes without the lowered module" in line and "cannot be kept: no" in line for line in said)


def test_the_real_compiler_gives_the_committed_program(tmp_path: Path):
    python = real_python()
    output = tmp_path / "tiny.json.gz"
    program = capture("models.tiny:tiny", "v5e", output, python=python, working_folder=MODELS_PARENT)
    assert program.sha256 == load("tiny").sha256
    assert program.production is not None
    assert verify(program, program.target, program.production) == []


def test_the_real_compiler_writes_most_results_for_v5p_to_hbm(tmp_path: Path):
    python = real_python()
    output = tmp_path / "tiny.json.gz"
    program = capture(
        "models.tiny:tiny", "v5p", output, python=python, working_folder=MODELS_PARENT, quick=True, with_module=False
    )
    assert program.hbm_accesses is not None
    results = (program.access_kind == RESULT) & program.fast_allowed[program.access_buffer]
    assert 0 < np.count_nonzero(program.hbm_accesses) <= np.count_nonzero(results)
    assert program.production is not None
    assert verify(program, program.target, program.production) == []


def test_the_file_names_the_options_that_the_compiler_does_not_take(tmp_path: Path):
    refuse = f'if request["through"] == "lowering": (made / "refused.json").write_text(json.dumps(["{KEEPS}"]))'
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    for more in ("", f'{refuse}; error = "the lowered module cannot be kept: no"', refuse):
        capture("models:my_step", "v5e", output, python=recorded(tmp_path, more), progress=said.append)
        assert read_program(output).compiler.get(REFUSED, []) == ([KEEPS] if more else []), more
    assert requests(tmp_path)[-1]["options"] == NAMING
    assert said.count(f"this version of the compiler does not take {KEEPS}") == 2
