"""The SLURM file run for real, but for SLURM: `srun` and `scontrol` are stand-ins that run everything here."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from installed import CLUSTER
from launch_cases import SETTINGS, WORKLOAD, counters, last_checkpoint, moves_so_far

pytestmark = pytest.mark.skipif(
    not CLUSTER or not shutil.which("bash"),
    reason="needs mallocmuzero[cluster] and bash",
)
ROOT = Path(__file__).parents[3]
_WAIT_S = 400.0
# Two raylets on one machine need ports of their own where nodes of a real cluster have the same.
_SRUN = """#!/bin/bash
while [ "${1#--}" != "$1" ]; do shift; done
echo "srun $*" >>"$SRUN_LOG"
case "$1 $2" in
"hostname --ip-address") echo 127.0.0.1 ;;
"ray start")
    [ "$3" != --head ] || set -- "$@" --include-dashboard=false
    exec "$@" --num-cpus=1 --dashboard-agent-listen-port=0
    ;;
*) exec "$@" ;;
esac
"""
_SCONTROL = """#!/bin/bash
case "$3" in head-list) echo node1 ;; worker-list) echo node2 ;; esac
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Ray's sockets have names of a hundred characters at most."""
    folder = Path(tempfile.mkdtemp(prefix="mm-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def test_the_script_starts_two_nodes_trains_saves_in_time_and_ends_them(tmp_path: Path, short_folder: Path) -> None:
    programs, run_dir, log = tmp_path / "bin", tmp_path / "run", tmp_path / "log"
    programs.mkdir()
    for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    config = tmp_path / "train.json"
    sections: dict[str, dict[str, object]] = {}
    for setting, value in {**SETTINGS, "schedule.evaluate_period": 0}.items():
        section, key = setting.split(".")
        sections.setdefault(section, {})[key] = value
    config.write_text(json.dumps({"workloads": [WORKLOAD], "actors": 1, **sections}))
    environment = {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "SRUN_LOG": str(tmp_path / "srun"),
        "RAY_PORT": str(free_port()),
        "RAY_TMPDIR": str(short_folder),
        "SLURM_JOB_NODELIST_HET_GROUP_0": "head-list",
        "SLURM_JOB_NODELIST_HET_GROUP_1": "worker-list",
        "SLURM_SUBMIT_DIR": str(ROOT),
    }
    with log.open("wb") as output:
        job = subprocess.Popen(
            ["bash", ROOT / "deploy" / "slurm.sbatch", run_dir, config],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + _WAIT_S
        while moves_so_far(run_dir) < 100:
            assert job.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)
        family = psutil.Process(job.pid).children(recursive=True)
        raylets = [process for process in family if process.name() == "raylet"]
        assert len(raylets) == 2
        # As `--signal=B:TERM@300` has it, the script alone is told.
        job.send_signal(signal.SIGTERM)
        status = job.wait(_WAIT_S)
        assert status == 143, log.read_text()
        _, left = psutil.wait_procs(family, timeout=60)
        assert not left
    finally:
        for process in family:
            if process.is_running():
                process.kill()
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
    assert counters(run_dir)["moves"] > 0
    assert (last_checkpoint(run_dir) / "replay").exists()
    started = (tmp_path / "srun").read_text()
    assert f"train-or-resume {run_dir} {config} --set ray.nodes=2" in started
