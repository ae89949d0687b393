"""A Ray cluster of several nodes: a job is submitted to it, a node is lost, the job is stopped and the run goes on."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from installed import CLUSTER
from launch_cases import SETTINGS, WORKLOAD, counters, last_checkpoint, metric_lines, moves_so_far, started
from ray_nodes_process import ray_nodes

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.ray import RayConfig
from mallocmuzero.launch.ray.nodes import await_nodes, capacity_warnings, check_alike, versions

needs_cluster = pytest.mark.skipif(
    not CLUSTER,
    reason="needs mallocmuzero[cluster]",
)
DEPLOY = Path(__file__).parents[3] / "deploy"
_WAIT_S = 400.0
# Another Ray on this machine may have the agents' usual port, and jobs are submitted through an agent.
_NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "dashboard_agent_listen_port": 0}


def job_status(dashboard: str) -> str:
    """Returns the status of the job `first`, and the reason."""
    with urllib.request.urlopen(f"http://{dashboard}/api/jobs/first", timeout=30) as answer:
        said = json.load(answer)
    return f"{said['status']}: {said['message']}"


def wait_until(condition: Callable[[], Any], dashboard: str) -> None:
    """Waits for the condition, while the job runs."""
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        status = job_status(dashboard)
        assert status.startswith(("RUNNING", "PENDING")), status
        assert time.monotonic() < deadline, status
        time.sleep(0.3)


def actors_by_raylet(cluster: int) -> dict[psutil.Process, int]:
    """Returns the number of playing actors on each raylet of a cluster, by the cluster's process."""
    found: dict[psutil.Process, int] = {}
    for process in psutil.Process(cluster).children(recursive=True):
        try:
            if "ray::ActorWorker" in " ".join(process.cmdline()):
                raylet = process.parent()
                if raylet is not None:
                    found[raylet] = found.get(raylet, 0) + 1
        except psutil.NoSuchProcess:
            continue
    return found


@needs_cluster
def test_a_job_on_three_nodes_loses_one_is_stopped_and_goes_on(tmp_path: Path) -> None:
    run_dir, config, log = tmp_path / "run", tmp_path / "train.json", tmp_path / "log"
    settings: dict[str, Any] = {}
    for name, value in {**SETTINGS, "schedule.evaluate_period": 0}.items():
        section, key = name.split(".")
        settings.setdefault(section, {})[key] = value
    # The learner and the replay on the head's node, actors on the others only.
    settings["ray"] = {
        "nodes": 3,
        "learner_resources": {"head": 1},
        "actor_resources": {"play": 1},
        "replay_memory_gb": 0.5,
    }
    config.write_text(json.dumps({"workloads": [WORKLOAD], "actors": 2, **settings}))
    # The head asks after a node so often; five times without an answer, and it is lost. Usually every three seconds.
    soon = {"_system_config": {"health_check_period_ms": 500}}
    head = {"resources": {"head": 1}, "include_dashboard": True, "dashboard_port": 0, "memory": 10**9}
    nodes = [
        {**_NODE, **head, **soon},
        *2 * [{**_NODE, "resources": {"play": 2}}],
    ]
    with ray_nodes(nodes, tmp_path / "cluster-log") as (cluster, there):
        ray, dashboard = Path(sys.executable).with_name("ray"), there["dashboard"]

        def ray_job(verb: str, *arguments: str | Path) -> None:
            command = [ray, "job", verb, "--address", f"http://{dashboard}", *arguments]
            deadline = time.monotonic() + _WAIT_S
            said = subprocess.run(command, capture_output=True, text=True)
            # A cluster that has just been started takes jobs a little later.
            while "No available agent" in said.stderr + said.stdout and time.monotonic() < deadline:
                time.sleep(1)
                said = subprocess.run(command, capture_output=True, text=True)
            assert said.returncode == 0, said.stdout + said.stderr

        # Ray's own three seconds are too few to save in.
        variables = {"PATH": f"{DEPLOY}:{ray.parent}:{os.environ['PATH']}", "RAY_JOB_STOP_WAIT_TIME_S": "200"}
        runtime = json.dumps({"env_vars": variables})
        options = ("--no-wait", "--submission-id", "first", "--runtime-env-json", runtime)
        ray_job("submit", *options, "--", "train-or-resume", run_dir, config)
        wait_until(lambda: moves_so_far(run_dir) >= 200, dashboard)
        raylets = actors_by_raylet(cluster.pid)
        assert sorted(raylets.values()) == [1, 1]  # one on each node
        lost, kept = raylets
        lost.kill()
        before = moves_so_far(run_dir)
        wait_until(lambda: "starting another" in (run_dir / "log.txt").read_text(), dashboard)
        # What the lost node did, the other one does.
        wait_until(lambda: actors_by_raylet(cluster.pid) == {kept: 2}, dashboard)
        wait_until(lambda: moves_so_far(run_dir) >= before + 400 and metric_lines(run_dir)[-1]["step"] > 0, dashboard)
        ray_job("stop", "first")
        assert job_status(dashboard).startswith("STOPPED")
        saved = counters(run_dir)
        assert saved["step"] > 0
        assert (last_checkpoint(run_dir) / "replay").exists()  # Ray tells every process of a job to end.
        # Once more where Ray puts the next one on the node that it does not yet know to be lost.
        assert saved["restarts"]["actor"] >= 1

        # From a shell on a node, as it goes without jobs.
        goal = str(saved["step"] + 6)
        again = ["train", "--run-dir", str(run_dir), "--resume", "--address", there["address"], "--steps", goal]
        with started([*again, "--set", "ray.nodes=2", "--actors", "1"], log) as process:
            assert process.wait(_WAIT_S) == 0, log.read_text()
        text = log.read_text()
        assert f"going on from update {saved['step']}" in text
        assert "muzero-or-production" in text
        assert (run_dir / "best" / f"{WORKLOAD}.png").exists()
        assert counters(run_dir)["step"] == int(goal)
        assert max(line.get("play/moves", 0) for line in metric_lines(run_dir)) > saved["moves"]


def test_nodes_that_differ_are_all_named() -> None:
    ours = versions()
    assert {"Python", "mallocmuzero", "jax", "numpy"} <= set(ours)
    check_alike(ours, {"10.0.0.2 (aa)": ours, "10.0.0.3 (bb)": dict(ours)})
    other = {**ours, "Python": "3.9", "jax": "0.4.1"}
    older = {name: version for name, version in ours.items() if name != "numpy"}
    with pytest.raises(UserError) as raised:
        check_alike(ours, {"10.0.0.2 (aa)": ours, "10.0.0.3 (bb)": other, "10.0.0.4 (cc)": older})
    message = str(raised.value)
    assert f"10.0.0.3 (bb) has Python 3.9 (here {ours['Python']}), jax 0.4.1 (here {ours['jax']})" in message
    assert f"10.0.0.4 (cc) has numpy not installed (here {ours['numpy']})" in message
    assert "10.0.0.2" not in message
    assert "install the same everywhere" in message


def test_a_run_waits_for_its_nodes_and_says_which_are_missing() -> None:
    seen: list[int] = []

    def nodes() -> list[dict[str, Any]]:
        seen.append(1)
        return [{"Alive": True}] * min(len(seen), 2) + [{"Alive": False}]

    ray: Any = SimpleNamespace(nodes=nodes)
    await_nodes(ray, 2, timeout_s=30.0)
    assert len(seen) == 2
    with pytest.raises(UserError, match=r"has 2 of 3 nodes after 0 s; start the others, or lower ray\.nodes"):
        await_nodes(ray, 3, timeout_s=0.0)


def test_roles_without_room_are_named() -> None:
    small = {"Resources": {"CPU": 4.0, "memory": 8e9}}
    large = {"Resources": {"CPU": 16.0, "memory": 64e9, "GPU": 1.0, "ssd": 2.0}}
    config = RayConfig(
        actor_cpus=1, actor_memory_gb=2, learner_gpus=1, learner_cpus=4, evaluator_cpus=1, actor_resources={"ssd": 0.5}
    )
    assert capacity_warnings([small, large], config, actors=4) == []
    (line,) = capacity_warnings([small, large], config, actors=5)
    assert "the cluster has 2 ssd of 2.5 ssd that all roles ask for" in line
    lines = capacity_warnings([small], config, actors=1)
    assert [line.split(",")[0] for line in lines] == [
        "no node has what one actor asks for",
        "no node has what one learner asks for",
    ]
    assert "4 CPU, 1 GPU" in lines[1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"actor_resources": {"CPU": 1.0}}, "has a setting of its own"),
        ({"learner_resources": {"TPU": 1.5}}, "must be a whole number"),
        ({"replay_memory_gb": -1.0}, "must not be negative"),
        ({"nodes": 0}, "must be at least 1"),
        ({"start_timeout_s": 0.0}, "must be above 0"),
    ],
)
def test_what_ray_could_not_grant_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RayConfig(**settings)
