"""The Ray topology end to end: a Reverb server, actors and a learner in processes of their own, stopped and resumed.

Ray runs in processes that the tests start and end; what they leave behind would be found by the next test.
"""

import importlib.util
import os
import signal
from pathlib import Path

import psutil
import pytest
from launch_cases import (
    WORKLOAD,
    counters,
    last_checkpoint,
    metric_lines,
    moves_so_far,
    started,
    train_arguments,
    wait_for_moves,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or importlib.util.find_spec("reverb") is None,
    reason="needs mallocmuzero[cluster]",
)
_WAIT_S = 240.0


def children(process_id: int) -> list[psutil.Process]:
    """All processes that stem from one, itself included."""
    root = psutil.Process(process_id)
    return [root, *root.children(recursive=True)]


def named(processes: list[psutil.Process], text: str) -> list[psutil.Process]:
    """Those whose command line contains `text`."""
    found = []
    for process in processes:
        try:
            if text in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def assert_all_gone(processes: list[psutil.Process]) -> None:
    """Nothing is left behind."""
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive


def test_run_loses_an_actor_is_interrupted_and_resumed(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    arguments = train_arguments(run_dir, "--topology", "ray", "--actors", "2")
    with started(arguments, log) as process:  # Without an end.
        wait_for_moves(run_dir, 400, process.pid)
        family = children(process.pid)
        first, *_ = named(family, "ray::ActorWorker")
        first.kill()
        wait_for_moves(run_dir, moves_so_far(run_dir) + 200, process.pid)
        family = list({*family, *children(process.pid)})
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_WAIT_S) == 130, log.read_text()
    assert_all_gone(family)
    text = log.read_text()
    assert "0:00 · 0 moves" in text
    assert "the workers compile" in text
    assert "died" in text
    assert "starting another" in text
    assert "Traceback" not in text
    saved = counters(run_dir)
    assert saved["step"] > 0
    assert saved["episodes"] > 0
    inserts_before = max(line.get("replay/inserts", 0) for line in metric_lines(run_dir))
    assert inserts_before > 0

    # The other half: everything goes on where it stood, with one actor now.
    goal = str(saved["step"] + 12)
    log = tmp_path / "log-2"
    with started(["train", "--run-dir", str(run_dir), "--resume", "--actors", "1", "--steps", goal], log) as process:
        assert process.wait(_WAIT_S) == 0, log.read_text()
    text = log.read_text()
    assert f"going on from update {saved['step']}" in text
    assert "muzero-or-production" in text
    resumed = counters(run_dir)
    assert resumed["step"] == int(goal)
    assert resumed["moves"] > saved["moves"]
    (first_line, *_) = [
        line for line in metric_lines(run_dir) if line["step"] > saved["step"] and "replay/inserts" in line
    ]
    assert first_line["replay/inserts"] >= inserts_before  # the table and its counters are those of before
    last_line = [line for line in metric_lines(run_dir) if "blocked/learner_s" in line][-1]
    assert {"blocked/actors_turn_s", "blocked/actors_parameters_s", "blocked/learner_turn_s"} <= set(last_line)
    assert {"blocked/actors_s", "play/policy_lag", "replay/samples_per_insert"} <= set(last_line)
    assert (run_dir / "best" / f"{WORKLOAD}.png").exists()


def test_run_ends_with_a_clear_line_when_the_replay_server_dies(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    arguments = train_arguments(run_dir, "--topology", "ray", schedule__evaluate_period=0)
    with started(arguments, log) as process:
        wait_for_moves(run_dir, 200, process.pid)
        family = children(process.pid)
        (server,) = named(family, "reverb.server_process")
        server.kill()
        assert process.wait(_WAIT_S) == 2, log.read_text()
    assert_all_gone(family)
    *_, line = log.read_text().splitlines()
    assert line.startswith("mallocmuzero: error: the replay server died")
    # The learner is saved without it.
    assert (last_checkpoint(run_dir) / "learner").exists()
    assert not (last_checkpoint(run_dir) / "replay").exists()
