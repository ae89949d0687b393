"""Ctrl-C in the evaluation at the end of `train` skips the rest of it: the run has been saved before."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from launch_cases import call, counters, train_arguments

from mallocmuzero.launch.train import experiment


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_final_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, expected: int
) -> None:
    def evaluation(*_: Any) -> None:
        os.kill(os.getpid(), number)
        time.sleep(60.0)
        raise AssertionError("the evaluation went on")

    monkeypatch.setattr(experiment, "finish", evaluation)
    status, _, errors = call(*train_arguments(tmp_path / "run", "--steps", "3", workload="tiny"))
    assert status == expected
    assert f"the evaluation is skipped; `mallocmuzero evaluate {tmp_path / 'run'}` does it later" in errors
    assert "Traceback" not in errors
    assert counters(tmp_path / "run")["step"] == 3


def test_an_error_of_the_evaluation_is_not_swallowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluation(*_: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(experiment, "finish", evaluation)
    with pytest.raises(OSError, match="the disk is full"):
        call(*train_arguments(tmp_path / "run", "--steps", "3", workload="tiny"))
