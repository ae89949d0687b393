"""Ctrl-C, at any moment and twice, shows no traceback; what it broke in a library does not come out as an error."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from launch_cases import call

from mallocmuzero.env import workloads
from mallocmuzero.launch.terminal.stop import interrupt


@pytest.mark.parametrize("delays", [(0.4,), (0.8, 0.1), (1.6, 0.3), (2.5,)])
@pytest.mark.parametrize("command", ["solve", "show"])
def test_no_traceback(tmp_path: Path, command: str, delays: tuple[float, ...]) -> None:
    arguments = {
        "solve": ["solve", "tiny", "--seconds", "60", "-o", str(tmp_path / "m.json.gz")],
        "show": ["show", "resnet50-b128", "production", "-o", str(tmp_path / "p.png")],
    }[command]
    with subprocess.Popen(
        [sys.executable, "-m", "mallocmuzero", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        for delay in delays:
            time.sleep(delay)
            if process.poll() is None:
                os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    assert "Traceback" not in output + errors, errors
    assert process.returncode in (130, -signal.SIGINT, 0), errors
    assert command == "show" or process.returncode != 0


@pytest.mark.parametrize("becomes", [ImportError, RuntimeError])
def test_an_interruption_that_a_library_makes_an_error_of(
    monkeypatch: pytest.MonkeyPatch, becomes: type[Exception]
) -> None:
    def load(*arguments: object) -> None:
        try:
            interrupt(signal.SIGINT, None)
        except KeyboardInterrupt as error:
            raise becomes("in the middle of something") from error

    monkeypatch.setattr(workloads, "load", load)
    assert call("verify", "tiny", "production") == (130, "", "mallocmuzero: stopped\n")


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workloads, "load", lambda name: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        call("verify", "tiny", "production")
