"""The tests are shared out between processes by groups of files (`conftest.py`)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

WHERE = """
import os
import pathlib
import time

import pytest


@pytest.mark.parametrize("number", range(4))
def test_it(number):
    time.sleep(0.2)
    place = pathlib.Path(__file__)
    with place.with_suffix(".txt").open("a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


def test_a_group_of_files_has_one_process_and_another_runs_beside_it(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).parent / "conftest.py", tmp_path)
    names = ("ray_nodes", "ray_topology", "server", "sharded")
    for name in names:
        (tmp_path / f"test_{name}.py").write_text(WHERE)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", "--no-loadscope-reorder"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ran = {name: (tmp_path / f"test_{name}.txt").read_text().split() for name in names}
    assert all(len(workers) == 4 for workers in ran.values())
    (clusters,) = {*ran["ray_nodes"], *ran["ray_topology"]}
    (replay,) = {*ran["server"], *ran["sharded"]}
    assert clusters != replay
