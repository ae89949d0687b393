"""The pipes to the compiler's process: neither a long request nor a talkative module stops the clock."""

import time
from pathlib import Path

import pytest
from compiler_cases import interpreter

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.compiler import CODE, Compiler, TimeLimitError
from mallocmuzero.env.errors import UserError

# Longer than what a pipe holds.
LONG = {"xla_of_many_words": "x" * 2**18}


def seconds(folder: Path, script: str, time_limit_s: float) -> float:
    """Returns the seconds that a process answers to a long request."""
    made = folder / "made"
    made.mkdir()
    with Compiler(interpreter(folder, script), "m:f", "v5e:1x1", folder, time_limit_s=time_limit_s) as compiler:
        return compiler.compile(made, LONG, CODE)


def test_the_time_limit_holds_while_the_request_is_handed_over(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(TimeLimitError, match="m:f: not compiled after"):
        seconds(tmp_path, "exec sleep 5", 0.5)
    assert time.monotonic() - begun < 4.0


def test_a_process_may_print_before_it_reads(tmp_path: Path) -> None:
    said = "head -c 300000 /dev/zero | timeout 5 tr '\\0' 'x' || exit 1"
    # The length of the request takes the place of the seconds.
    answer = f"""length=$(head -n 1 | wc -c); printf '\\n{worker.DONE}{{"error": null, "cpu_s": %s}}\\n' $length"""
    assert seconds(tmp_path, f"{said}\n{answer}", 60.0) > 2**18


def test_a_process_that_reads_nothing_tells_why(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^no weights$"):
        seconds(tmp_path, f"exec <&-; sleep 0.2; echo '{worker.MARK}no weights'; exit 3", 60.0)


def test_a_log_that_cannot_be_written_is_not_the_interpreter_s_fault(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    compiler = Compiler(interpreter(tmp_path, "exit 0"), "m:f", "v5e:1x1", tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"worker\.txt"):
        compiler.compile(made, {}, CODE)
