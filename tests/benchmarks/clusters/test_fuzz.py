"""A sample of benchmarks/clusters/fuzz.py, and hostile files made by hand: every reader reads or refuses them."""

import gzip
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from flax import serialization

from benchmarks.clusters import fuzz_targets
from benchmarks.clusters.fuzz import fuzz
from mallocmuzero.env.errors import FormatError
from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.learner.checkpoints.policy_file import read_policy, write_policy
from mallocmuzero.learner.checkpoints.stored_network import stored_network
from mallocmuzero.learner.networks.network import Network, NetworkConfig

NETWORK = Network(NetworkConfig(observation_size=6, width=8, projection_width=8))
# As many as a second allows: the last two trace networks.
SAMPLE: dict[str, int] = {"learner manifest": 20, "read_policy": 10}


@pytest.mark.parametrize("name", list(fuzz_targets.targets(Path())))
def test_a_sample_of_changed_files(name: str, tmp_path: Path) -> None:
    outcome = fuzz(name, SAMPLE.get(name, 200), seed=1, folder=tmp_path, kept=None)
    assert not outcome.failures
    assert outcome.refused > 0


def test_what_a_reader_does_not_expect_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_targets, "read_mapping", lambda path, program: 1 // 0)
    kept = tmp_path / "kept"
    outcome = fuzz("read_mapping", 3, seed=0, folder=tmp_path / "files", kept=kept)
    assert sum(outcome.failures.values()) == 3
    (place,) = kept.iterdir()
    assert "ZeroDivisionError" in (place / "raised.txt").read_text()
    assert (place / "mapping.json.gz").exists()


def _document() -> dict[str, object]:
    halves = jax.tree.map(
        lambda leaf: np.asarray(leaf, np.float16), jax.device_get(NETWORK.init(jax.random.PRNGKey(0)))
    )
    return {
        "format": "mallocmuzero-policy",
        "format_version": 1,
        "network": json.dumps(NETWORK.config.to_json()),
        "info": "{}",
        "parameters": {name: part for name, part in halves.items() if not name.startswith("projection")},
    }


def test_a_policy_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mallocmuzero.learner.checkpoints.policy_file.MOST_BYTES", 2**20)
    path = tmp_path / "bomb.policy"
    path.write_bytes(gzip.compress(bytes(2**24)))
    assert path.stat().st_size < 2**16
    with pytest.raises(FormatError, match="unpacks to more than"):
        read_policy(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 2**14 - 1, "representation_blocks": 60},
        {"width": 10**9},
        {"width": 1.5},
        {"width": "8"},
        {"grid_channels": [1] * 1000},
        {"value": {"bins": 10**9 + 1}},
    ],
)
def test_a_network_too_large_to_be_real_is_refused_before_it_is_made(changes: dict[str, object]) -> None:
    with pytest.raises(FormatError, match="file: network"):
        stored_network({**NETWORK.config.to_json(), **changes}, "file: network")
    assert stored_network(NETWORK.config.to_json(), "file: network").config == NETWORK.config


def test_a_policy_needs_all_parts_and_finite_numbers(tmp_path: Path) -> None:
    path = tmp_path / "a.policy"
    document = _document()
    path.write_bytes(gzip.compress(serialization.msgpack_serialize(document)))
    assert read_policy(path).info == {}
    parts = dict(document["parameters"])  # type: ignore[call-overload]
    missing = {name: part for name, part in parts.items() if name != "dynamics"}
    infinite = {**parts, "dynamics": jax.tree.map(lambda leaf: np.full_like(leaf, np.inf), parts["dynamics"])}
    for wrong in (missing, infinite):
        path.write_bytes(gzip.compress(serialization.msgpack_serialize({**document, "parameters": wrong})))
        with pytest.raises(FormatError, match="dynamics"):
            read_policy(path)
    write_policy(path, NETWORK, NETWORK.init(jax.random.PRNGKey(0)), {})
    assert read_policy(path).network.config == NETWORK.config


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "", "\0", "\ud800"])
def test_no_manifest_names_a_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    checkpoints = RunCheckpoints(tmp_path / "checkpoints", keep=1)
    with checkpoints.writing() as (_, entries):
        entries |= {"counters": {"step": 0}, "metrics_offset": 0}
    path = checkpoints.path(1) / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "files": {name: "0" * 64}}))
    with pytest.raises(FormatError, match="elsewhere"):
        checkpoints.read()
    with pytest.raises(FormatError, match="no file's name"):
        RunDirectory(tmp_path).programs({"programs": [{"name": name, "sha256": "0"}]})


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    os.mkfifo(run.manifest_file)
    with pytest.raises(FormatError, match="is no file"):
        run.manifest()
