"""Compilation is shown while it lasts, in a terminal and in a file, and Ctrl-C ends it at once."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

_COMMAND = [sys.executable, "-m", "mallocmuzero.launch.cli"]
_WAIT_S = 240.0


def test_lines_outside_a_terminal(tmp_path: Path) -> None:
    """One line at the beginning and one at the end, only where something is compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [*_COMMAND, "verify", "tiny", "production"]
    cold = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_WAIT_S)
    assert cold.returncode == 0
    assert re.fullmatch(r"compiling, once on this machine: 2 kernels\ncompiled in \d+ s\n", cold.stderr)
    warm = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_WAIT_S)
    assert warm.stderr == ""
    assert warm.stdout == cold.stdout


def interrupted(cache: Path, *arguments: str, signals: int) -> tuple[int, str, float]:
    """Runs a command in a terminal, presses Ctrl-C so often once it compiles; returns status, text, and the seconds
    that it then took to end."""
    terminal, its_end = pty.openpty()
    # A program of its own takes the terminal: to fork here, beside other tests' threads, is not safe.
    take = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", take, *_COMMAND, *arguments]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    started = subprocess.Popen(
        command, stdin=its_end, stdout=its_end, stderr=its_end, env=environment, start_new_session=True
    )
    os.close(its_end)
    process, text, pressed, end = psutil.Process(started.pid), b"", 0.0, time.monotonic() + _WAIT_S
    family: list[psutil.Process] = []
    helped = float("inf")
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:  # the terminal's last process has ended
                break
        helpers = process.children() if not pressed else []
        if b"compiling" in text and helpers:
            helped = min(helped, time.monotonic())
        # Both are at it; meanwhile the terminal is read, or the progress fills it.
        if not pressed and helpers and time.monotonic() > helped + 2.5:
            family, pressed = [process, *helpers], time.monotonic()
            for _ in range(signals):
                os.write(terminal, b"\x03")
                time.sleep(0.01)
    status = started.wait()
    os.close(terminal)
    seconds = time.monotonic() - pressed
    assert family
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive
    return status, text.decode(), seconds


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core compiles without helpers")
def test_ctrl_c_ends_all_at_once_in_one_line(tmp_path: Path) -> None:
    for signals in (1, 2):
        status, text, seconds = interrupted(tmp_path / str(signals), "workloads", signals=signals)
        assert status == 130
        assert seconds < 5.0
        assert "compiling, once on this machine: " in text
        assert text.count("mallocmuzero: stopped: nothing has been written") == 1
        assert "Traceback" not in text
        assert "Error" not in text
