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

STEPS = 60
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


def _wait_for_a_saved_update(run_dir: Path, step: int) -> None:
    """Waits for a whole checkpoint from after an update; a slow machine saves before the first."""
    deadline = time.monotonic() + _WAIT_S
    while time.monotonic() < deadline:
        for manifest in (run_dir / "checkpoints").glob("[0-9]*/manifest.json"):
            with contextlib.suppress(OSError, ValueError):  # it is just being written, or removed
                if json.loads(manifest.read_text())["counters"]["step"] > step:
                    return
        time.sleep(0.02)


def test_a_run_that_is_interrupted_killed_and_resumed_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole, broken, log = tmp_path / "whole", tmp_path / "broken", tmp_path / "log"
    assert call(*train_arguments(whole, "--steps", str(STEPS), schedule__evaluate_period=20))[0] == 0
    # Saving all the time, so that the kill probably hits it in the middle of a checkpoint.
    saving = train_arguments(
        broken, "--steps", str(STEPS), schedule__evaluate_period=20, schedule__checkpoint_minutes=0.001
    )
    with started(saving, log) as process:
        _wait_for_a_saved_update(broken, 0)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_WAIT_S) == 130, log.read_text()
    text = log.read_text()
    assert "Traceback" not in text
    assert "--resume" in text
    interrupted = counters(broken)
    assert 0 < interrupted["step"] < STEPS
    assert interrupted["moves"] > 0
    with started(["train", "--run-dir", str(broken), "--resume"], log) as process:
        _wait_for_a_saved_update(broken, interrupted["step"])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert f"going on from update {interrupted['step']}" in log.read_text()
    killed = counters(broken)
    assert interrupted["step"] < killed["step"] < STEPS, log.read_text()
    # The comparison can fail.
    assert fingerprint(broken) != fingerprint(whole)
    options = ("--resume", "--set", "schedule.checkpoint_minutes=10.0")
    status, output, errors = call("train", "--run-dir", str(broken), *options)
    assert status == 0
    assert f"going on from update {killed['step']}" in errors
    assert "muzero-or-production" in output
    assert fingerprint(broken) == fingerprint(whole)

    # The learning curve is the same one too, and no point of it is there twice.
    def curve(run_dir: Path) -> list[tuple[int, float]]:
        name = f"evaluation/{WORKLOAD}/muzero-policy/latency_us"
        return [(line["step"], line[name]) for line in metric_lines(run_dir) if name in line]

    assert [step for step, _ in curve(whole)] == [0, 20, 40, 60]
    assert curve(broken) == curve(whole)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    runs = [tmp_path / str(seed) for seed in (0, 0, 1)]
    for run_dir in runs[1:]:
        arguments = train_arguments(run_dir, "--steps", "6", "--seed", run_dir.name, schedule__evaluate_period=0)
        assert call(*arguments)[0] == 0
    assert fingerprint(runs[1]) != fingerprint(runs[2])


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
