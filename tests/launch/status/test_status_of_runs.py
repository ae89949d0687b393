"""`mallocmuzero status` on real runs: one that runs, one that has ended, one that was killed."""

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from launch_cases import WORKLOAD, call, counters, last_checkpoint, started, train_arguments

from mallocmuzero.launch.status.status import run_status

STEPS = 12
_WAIT_S = 300.0


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended; tests that change it make a copy."""
    run_dir = tmp_path_factory.mktemp("status") / "run"
    assert call(*train_arguments(run_dir, "--steps", str(STEPS)))[0] == 0
    return run_dir


def hash_of_parameters(run_dir: Path) -> str:
    """The documented hash, of the parameters themselves."""
    from numpy import asarray

    from mallocmuzero.learner.checkpoints.arrays import leaf_paths
    from mallocmuzero.learner.checkpoints.checkpoint import load_parameters

    (learner,) = (last_checkpoint(run_dir) / "learner").glob("step_*")
    _, params, _ = load_parameters(learner)
    import jax

    lines = []
    for path, leaf in zip(leaf_paths(params), jax.tree.leaves(params), strict=True):
        array = asarray(leaf)
        values = hashlib.sha256(array.tobytes()).hexdigest()
        lines.append(f"params/{path} {array.dtype} {','.join(map(str, array.shape))} {values}\n")
    assert len(lines) > 10
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def test_a_run_that_has_ended(ended: Path, tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    status, output, _ = call("status", str(ended), "--json", str(path))
    assert status == 0
    said = json.loads(path.read_text())
    assert said["state"] == "finished"
    assert said["running"] is False
    assert said["step"] == said["checkpoint"]["step"] == STEPS
    assert said["until"] == {"steps": STEPS, "minutes": None}
    assert said["moves"] == counters(ended)["moves"]
    assert said["parameters_sha256"] == hash_of_parameters(ended)
    evaluation = json.loads((ended / "evaluation.json").read_text())
    agent = [row for row in evaluation if row["solver"] in ("muzero-policy", "muzero-search", "muzero-best")]
    assert said["best"][WORKLOAD]["latency_us"] == pytest.approx(min(row["latency_us"] for row in agent))
    assert said["best"][WORKLOAD]["of_production"] == pytest.approx(
        said["best"][WORKLOAD]["latency_us"] / agent[0]["production_us"]
    )
    assert said["warnings"] == []
    assert said["limited_by"] in ("actors", "learner")
    assert said["limited_by"] in output
    assert said["parameters_sha256"] in output


def test_a_run_that_runs_and_is_killed(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    arguments = train_arguments(run_dir, schedule__checkpoint_minutes=0.001, schedule__evaluate_period=0)
    with started(arguments, tmp_path / "log") as process:  # Saves all the time; without an end.
        deadline = time.monotonic() + _WAIT_S
        said: dict[str, Any] = {}
        while not said.get("parameters_sha256") or not said["step"]:
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()
            time.sleep(0.05)
            if (run_dir / "manifest.json").exists():
                said = run_status(run_dir)
        assert said["state"] == "running"
        assert said["pid"] == process.pid
        steps = []
        for _ in range(40):  # While checkpoints come and go.
            said = run_status(run_dir)
            assert said["running"] is True
            assert said["warnings"] == []
            steps.append(said["step"])
        assert steps == sorted(steps)
        process.kill()
        process.wait()
    said = run_status(run_dir)
    assert said["state"] == "stopped"
    assert said["pid"] is None
    assert said["step"] == counters(run_dir)["step"]  # what --resume goes on from
    assert said["parameters_sha256"] == hash_of_parameters(run_dir)


def test_equal_parameters_have_equal_hashes_and_others_do_not(ended: Path, tmp_path: Path) -> None:
    more = tmp_path / "run"
    shutil.copytree(ended, more)
    assert run_status(more)["parameters_sha256"] == run_status(ended)["parameters_sha256"]
    assert call("train", "--run-dir", str(more), "--resume", "--steps", str(STEPS + 1))[0] == 0
    said = run_status(more)
    assert said["step"] == STEPS + 1
    assert said["parameters_sha256"] == hash_of_parameters(more) != run_status(ended)["parameters_sha256"]
