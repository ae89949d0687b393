"""The files for clusters: what can be known of them without a cluster."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rayjob_schema import RAYJOB

from mallocmuzero.launch.cli import make_parser
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.ray.nodes import capacity_warnings

yaml = pytest.importorskip("yaml")
DEPLOY = Path(__file__).parents[1] / "deploy"
CONFIG = DEPLOY / "train.toml"


def config() -> TrainConfig:
    overrides = Overrides()
    overrides.add_file(CONFIG)
    return overrides.resolve()


def command_of(tmp_path: Path, run_dir: Path) -> Any:
    """Returns the calls of `train-or-resume`, as the command line understands it."""
    fake = tmp_path / "bin" / "mallocmuzero"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    fake.chmod(0o755)
    said = subprocess.run(
        [DEPLOY / "train-or-resume", run_dir, CONFIG, "--set", "ray.nodes=4"],
        env={**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return make_parser().parse_args(said.stdout.splitlines())


def test_the_script_begins_a_run_and_goes_on_with_one(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    begun = command_of(tmp_path, run_dir)
    assert (begun.run_dir, begun.config, begun.resume) == (str(run_dir), CONFIG, False)
    assert (begun.topology, begun.address, begun.set) == ("ray", "auto", ["ray.nodes=4"])
    run_dir.mkdir()
    (run_dir / "manifest.json").write_text("{}")
    resumed = command_of(tmp_path, run_dir)
    assert (resumed.run_dir, resumed.config, resumed.resume, resumed.address) == (str(run_dir), None, True, "auto")


def containers(group: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = group["template"]["spec"]["containers"]
    return found


def node(group: dict[str, Any]) -> dict[str, Any]:
    """Returns the resources of a group's pod, as `ray.nodes` says them; memory is without Ray's object store."""
    (container,) = containers(group)
    assert container["resources"]["requests"] == container["resources"]["limits"]  # Ray counts the limits
    limits = container["resources"]["limits"]
    memory = int(limits["memory"].removesuffix("Gi")) * 2**30
    gpus = {"GPU": float(limits["nvidia.com/gpu"])} if "nvidia.com/gpu" in limits else {}
    return {"Resources": {"CPU": float(limits["cpu"]), "memory": 0.7 * memory, **gpus}}


def test_rayjob_is_what_kuberays_reference_has() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(RAYJOB)
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))
    jsonschema.validate(job, RAYJOB)
    cluster = job["spec"]["rayClusterSpec"]
    for wrong in (
        {**job, "spec": {**job["spec"], "shutDownAfterJobFinishes": True}},
        {**job, "spec": {**job["spec"], "rayClusterSpec": {**cluster, "authOptions": {"mode": "yes"}}}},
        {**job, "spec": {**job["spec"], "rayClusterSpec": {"workerGroupSpecs": cluster["workerGroupSpecs"]}}},
    ):
        with pytest.raises(jsonschema.ValidationError):  # The schema can refuse.
            jsonschema.validate(wrong, RAYJOB)


def test_rayjob_shuts_down_is_closed_to_others_and_has_room_for_the_configuration() -> None:
    spec = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    # Nobody without the token; KubeRay asks for the version, which is the image's.
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}
    assert f"ARG RAY_VERSION={spec['rayClusterSpec']['rayVersion']}\n" in (DEPLOY / "Dockerfile").read_text()
    head, workers = spec["rayClusterSpec"]["headGroupSpec"], spec["rayClusterSpec"]["workerGroupSpecs"]
    assert len({group["groupName"] for group in workers}) == len(workers)
    for group in workers:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    images = {container["image"] for group in (head, *workers) for container in containers(group)}
    assert len(images) == 1  # the same Python everywhere
    # Every mount has its volume, and the job's files lie on them.
    mounts = {mount["name"]: mount["mountPath"] for mount in containers(head)[0]["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in head["template"]["spec"]["volumes"]}
    program, run_dir, path, *options = spec["entrypoint"].split()
    assert (DEPLOY / program).is_file()
    assert run_dir.startswith(mounts["runs"] + "/")
    assert path == f"{mounts['train']}/{CONFIG.name}"
    nodes = [node(head), *(node(group) for group in workers for _ in range(group["replicas"]))]
    assert options == ["--set", f"ray.nodes={len(nodes)}"]
    assert capacity_warnings(nodes, config().ray, config().actors) == []
    assert node(head)["Resources"]["memory"] >= config().ray.replay_memory_gb * 1e9  # where the replay is


def test_the_network_policy_closes_the_pods_of_the_job() -> None:
    policy = yaml.safe_load((DEPLOY / "network-policy.yaml").read_text(encoding="utf-8"))["spec"]
    chosen = policy["podSelector"]["matchLabels"]
    cluster = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert group["template"]["metadata"]["labels"].items() >= chosen.items()
    inside, dashboard = policy["ingress"]
    assert inside == {"from": [{"podSelector": {"matchLabels": chosen}}]}
    # Whoever is not of the run reaches one port, which Ray closes by its token.
    ports = {port["name"]: port["containerPort"] for port in containers(cluster["headGroupSpec"])[0]["ports"]}
    assert [port["port"] for port in dashboard["ports"]] == [ports["dashboard"]]
    assert cluster["authOptions"] == {"mode": "token"}


@pytest.mark.parametrize("file", sorted(path.name for path in DEPLOY.iterdir()))
def test_every_file_says_that_reverb_is_open(file: str) -> None:
    text = " ".join((DEPLOY / file).read_text(encoding="utf-8").replace("#", " ").split())
    assert "Reverb" in text
    assert "authentication" in text or "ask for no token" in text


def test_cluster_file_is_what_ray_up_wants() -> None:
    spec = importlib.util.find_spec("ray")
    if spec is None or spec.origin is None:
        pytest.skip("needs mallocmuzero[cluster]")
    from ray.autoscaler._private.util import prepare_config, validate_config

    cluster = yaml.safe_load((DEPLOY / "cluster.yaml").read_text(encoding="utf-8"))
    # As `ray up` does.
    validate_config(prepare_config(cluster))
    starts = cluster["head_start_ray_commands"][-1], cluster["worker_start_ray_commands"][-1]
    assert "ray start --head" in starts[0]
    assert "--address=$RAY_HEAD_IP:6379" in starts[1]
    assert "--env=RAY_AUTH_MODE=token" in cluster["docker"]["run_options"]
    with pytest.raises(Exception, match="workers"):  # It can refuse.
        validate_config({**cluster, "workers": 2})


@pytest.mark.parametrize(("name", "shell"), [("slurm.sbatch", "bash"), ("train-or-resume", "sh")])
def test_scripts_parse(name: str, shell: str) -> None:
    subprocess.run([shell, "-n", DEPLOY / name], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", DEPLOY / name], check=True)


def test_slurm_file_asks_for_the_learners_accelerator_and_stops_in_time() -> None:
    text = (DEPLOY / "slurm.sbatch").read_text(encoding="utf-8")
    head, rest = text.split("#SBATCH hetjob\n")
    assert "--gres=gpu:1" in head
    assert "--signal=B:TERM@" in head
    # SLURM reads no directive after the first command.
    assert "#SBATCH" not in rest.split("set -euo pipefail")[1]
    # Not beside `$0`: SLURM runs a copy elsewhere.
    assert '"${SLURM_SUBMIT_DIR:?}/deploy/train-or-resume" "$run_dir" "$config"' in rest
    assert "RAY_AUTH_MODE=token" in rest  # Other users of the machines are kept out.


def test_image_installs_what_the_other_files_call() -> None:
    text = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert "/src[cluster]" in text
    for name in ("train-or-resume", "train.toml"):
        assert f"/src/deploy/{name}" in text
        assert (DEPLOY / name).is_file()
