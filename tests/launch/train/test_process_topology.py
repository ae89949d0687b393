"""The single-process topology repeats bit for bit, across an end and a kill."""

import contextlib
import hashlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
from launch_cases import WORKLOAD, call, counters, last_checkpoint, metric_lines, started, train_arguments

from mallocmuzero.launch.config.config import config_from_json
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.run.json_file import read_json_file
from mallocmuzero.launch.session.builders import initial_state
from mallocmuzero.learner.checkpoints.checkpoint import Checkpoints
from mallocmuzero.learner.networks.network import Network

STEPS = 24
_WAIT_S = 300.0


def fingerprint(run_dir: Path) -> dict[str, Any]:
    """Everything that two equal runs share: what they know, remember, play with, have found and have counted."""
    import jax

    folder = last_checkpoint(run_dir)
    config = config_from_json(read_json_file(RunDirectory(run_dir).config_file), "config")
    network = Network(config.network)
    state = Checkpoints(folder / "learner", network).restore(initial_state(config, network))
    with np.load(folder / "replay" / "table.npz") as table:
        replay = {name: _hash(array.tobytes()) for name, array in table.items()}
    counted = counters(run_dir)
    return {
        "learner": [_hash(np.asarray(leaf).tobytes()) for leaf in jax.tree.leaves(state)],
        "replay": replay,
        "generator": read_json_file(folder / "replay" / "replay.json")["generator"],
        "actors": (folder / "actors.json").read_text(),
        "published": _hash((folder / "published.msgpack").read_bytes()),
        "best": _hash((folder / "best" / f"{WORKLOAD}.mapping.json.gz").read_bytes()),
        "counters": {name: counted[name] for name in ("step", "moves", "episodes", "program_episodes")},
    }


def test_half_a_run_and_its_other_half_are_the_run(tmp_path: Path) -> None:
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert call(*train_arguments(whole, "--steps", str(STEPS)))[0] == 0
    assert call(*train_arguments(halves, "--steps", str(STEPS // 2)))[0] == 0
    assert counters(halves)["step"] == STEPS // 2
    assert call("train", "--run-dir", str(halves), "--resume", "--steps", str(STEPS))[0] == 0
    assert fingerprint(halves) == fingerprint(whole)
    # Another seed is another run: the comparison can fail.
    other = tmp_path / "other"
    assert call(*train_arguments(other, "--steps", str(STEPS), "--seed", "1"))[0] == 0
    assert fingerprint(other) != fingerprint(whole)

    # The learning curve is the same one too, and no point of it is there twice.
    def curve(run_dir: Path) -> list[tuple[int, float]]:
        name = f"evaluation/{WORKLOAD}/muzero-policy/latency_us"
        return [(line["step"], line[name]) for line in metric_lines(run_dir) if name in line]

    assert [step for step, _ in curve(whole)] == [0, 8, 16, 24]
    assert curve(halves) == curve(whole)


def _has_saved_updates(run_dir: Path) -> bool:
    """Returns whether a run has a whole checkpoint from after an update; a slow machine saves before the first."""
    for manifest in (run_dir / "checkpoints").glob("[0-9]*/manifest.json"):
        with contextlib.suppress(OSError, ValueError):  # it is just being written, or removed
            if json.loads(manifest.read_text())["counters"]["step"] > 0:
                return True
    return False


def test_killed_run_resumes_from_its_last_checkpoint_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert call(*train_arguments(whole, "--steps", "150", schedule__evaluate_period=0))[0] == 0
    # Saving all the time, so that the kill probably hits it in the middle of a checkpoint.
    arguments = train_arguments(
        killed, "--steps", "150", schedule__checkpoint_minutes=0.001, schedule__evaluate_period=0
    )
    with started(arguments, tmp_path / "log") as process:
        deadline = time.monotonic() + _WAIT_S
        while not _has_saved_updates(killed) and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    saved = counters(killed)
    assert 0 < saved["step"] < 150, (tmp_path / "log").read_text()
    status, _, errors = call("train", "--run-dir", str(killed), "--resume", "--set", "schedule.checkpoint_minutes=10.0")
    assert status == 0
    assert f"going on from update {saved['step']}" in errors
    assert fingerprint(killed) == fingerprint(whole)


def test_ctrl_c_saves_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    with started(train_arguments(run_dir), log) as process:  # Without an end.
        deadline = time.monotonic() + _WAIT_S
        while not (run_dir / "best" / f"{WORKLOAD}.mapping.json.gz").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_WAIT_S) == 130
    text = log.read_text()
    assert "Traceback" not in text
    assert "--resume" in text
    saved = counters(run_dir)
    assert saved["moves"] > 0
    status, output, _ = call("train", "--run-dir", str(run_dir), "--resume", "--steps", str(saved["step"] + 2))
    assert status == 0
    assert "muzero-or-production" in output
    assert counters(run_dir)["step"] == saved["step"] + 2
    assert counters(run_dir)["moves"] >= saved["moves"]


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
