"""`mallocmuzero status --watch`: shows what changes, ends with the run or by Ctrl-C, and says what it cannot follow."""

import io
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launch_cases import call
from report_cases import run_directory
from rich.console import Console
from rich.text import Text

from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.status.watch import watch


def statuses(*running: bool) -> Iterator[dict[str, Any]]:
    for step, runs in enumerate(running):
        yield {"running": runs, "step": step}


def shown(console: Console, read: Any) -> dict[str, Any]:
    return watch(console, read, lambda status: Text(f"step {status['step']}"), refresh_s=0.01)


def test_it_shows_each_status_until_the_run_ends() -> None:
    output, following = io.StringIO(), statuses(True, True, False)
    last = shown(Console(file=output, force_terminal=True, width=80), lambda: next(following))
    assert last == {"running": False, "step": 2}
    text = output.getvalue()
    assert [f"step {step}" in text for step in range(3)] == [True] * 3
    assert "Ctrl-C ends the view, not the run" in text
    assert text.rstrip().endswith("step 2")  # the last one stays


def test_without_a_terminal_the_last_status_is_printed_once() -> None:
    output, following = io.StringIO(), statuses(True, True, False)
    shown(Console(file=output, width=80), lambda: next(following))
    assert output.getvalue() == "step 2\n"


def test_a_run_that_nobody_trains_is_shown_once(tmp_path: Path) -> None:
    status, printed, _ = call("status", str(run_directory(tmp_path)), "--watch")
    assert status == 0
    assert "stopped" in printed.splitlines()[0]


def test_ctrl_c_ends_the_view(tmp_path: Path) -> None:
    run = RunDirectory(run_directory(tmp_path))
    run.lock()  # by this process, which trains as far as anybody can see
    try:
        view, terminal = pty.openpty()
        command = [sys.executable, "-m", "mallocmuzero.launch.cli", "status", str(run.path), "--watch"]
        with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal) as watching:
            os.close(terminal)
            text = b""
            until = time.monotonic() + 60
            while b"Ctrl-C ends" not in text and time.monotonic() < until:
                text += os.read(view, 4096)
            assert watching.poll() is None
            watching.send_signal(signal.SIGINT)
            try:
                while more := os.read(view, 4096):
                    text += more
            except OSError:
                pass  # the terminal is closed: the process has ended
            assert watching.wait(timeout=20) == 0
        os.close(view)
    finally:
        run.unlock()
    words = b" ".join(text.split())  # a long path wraps the line anywhere
    assert b"running, process" in words
    assert b"Traceback" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("memory://run", "--watch"), "--watch follows a folder"), (("run", "--watch", "--json", "-"), "leave one out")],
)
def test_what_cannot_be_followed_is_refused(arguments: tuple[str, ...], message: str) -> None:
    status, _, errors = call("status", *arguments)
    assert (status, message in errors) == (2, True)
