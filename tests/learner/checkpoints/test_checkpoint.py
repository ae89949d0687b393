"""Checkpoints: what was saved comes back bit for bit, and nothing else is accepted."""

import functools
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest
from learner_cases import make_batch

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.learner.checkpoints.checkpoint import Checkpoints, load_parameters
from mallocmuzero.learner.checkpoints.manifest import read_manifest
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.learner.state import TrainingState, init_state
from mallocmuzero.learner.update import make_optimiser, make_update

NETWORK = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
CONFIG = LearnerConfig(batch_size=2, unroll_steps=2, td_steps=2)
OPTIMISER = make_optimiser(CONFIG)


@functools.cache
def fresh_state(seed: int = 0) -> TrainingState:
    return init_state(NETWORK, OPTIMISER, jax.random.PRNGKey(seed))


def template() -> TrainingState:
    return fresh_state(1)


def at_step(step: int) -> TrainingState:
    return fresh_state().replace(step=np.int32(step))


def assert_same(left: Any, right: Any) -> None:
    assert jax.tree.structure(left) == jax.tree.structure(right)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return Checkpoints(tmp_path, NETWORK).save(at_step(7), info={"config": {"seed": 3}})


def test_a_restored_run_continues_bit_for_bit(tmp_path: Path) -> None:
    update = make_update(NETWORK, CONFIG)
    batches = [make_batch(CONFIG, 6, [9, 3], seed) for seed in range(4)]
    state = fresh_state()
    for batch in batches[:2]:
        state, _, _ = update(state, batch)
    checkpoints = Checkpoints(tmp_path / "new" / "folder", NETWORK)
    checkpoints.save(state)
    restored = checkpoints.restore(template())
    assert_same(restored, state)
    for batch in batches[2:]:
        state, metrics, _ = update(state, batch)
        restored, restored_metrics, _ = update(restored, batch)
    assert_same(restored, state)
    assert_same(restored_metrics, metrics)


def test_parameters_load_without_knowing_the_network(saved: Path) -> None:
    network, params, step = load_parameters(saved)
    assert (network, step) == (NETWORK, 7)
    assert_same(params, fresh_state().params)


def test_manifest_says_what_the_checkpoint_is(saved: Path) -> None:
    manifest = read_manifest(saved)
    assert manifest["step"] == 7
    assert manifest["network_sha256"] == NETWORK.config.sha256
    assert NetworkConfig.from_json(manifest["network"]) == NETWORK.config
    assert manifest["info"] == {"config": {"seed": 3}}
    assert {"params/dynamics/action/kernel", "step", "key"} <= {leaf["path"] for leaf in manifest["leaves"]}


def test_manifest_hashes_the_values_of_every_leaf(saved: Path) -> None:
    found = [leaf["sha256"] for leaf in read_manifest(saved)["leaves"]]
    state = Checkpoints(saved.parent, NETWORK).restore(template())
    assert found == [hashlib.sha256(np.asarray(leaf).tobytes()).hexdigest() for leaf in jax.tree.leaves(state)]


def test_keeps_the_last_ones(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, NETWORK, keep=2)
    assert checkpoints.steps() == []
    for step in (1, 5, 12):
        checkpoints.save(at_step(step))
    assert checkpoints.steps() == [5, 12]
    assert int(checkpoints.restore(template()).step) == 12
    assert int(checkpoints.restore(template(), step=5).step) == 5
    with pytest.raises(UserError, match=r"no checkpoint of step 1; there are \[5, 12\]"):
        checkpoints.restore(template(), step=1)


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, NETWORK)
    checkpoints.save(at_step(3))
    checkpoints.save(template().replace(step=np.int32(3)))
    assert_same(checkpoints.restore(fresh_state()).params, template().params)
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000003"]


def test_what_a_killed_writer_left_is_ignored_and_removed(tmp_path: Path) -> None:
    (tmp_path / ".writing-000000009-123" / "arrays").mkdir(parents=True)
    (tmp_path / "step_notes").mkdir()
    checkpoints = Checkpoints(tmp_path, NETWORK)
    assert checkpoints.steps() == []
    checkpoints.save(at_step(1))
    assert checkpoints.steps() == [1]
    assert not list(tmp_path.glob(".writing*"))


def test_a_failed_save_leaves_the_older_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(tmp_path, NETWORK)
    checkpoints.save(at_step(1))

    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mallocmuzero.learner.checkpoints.checkpoint._write_synced", full_disk)
    with pytest.raises(UserError, match=r"step_000000002: cannot write the checkpoint: .*No space left"):
        checkpoints.save(at_step(2))
    assert [path.name for path in tmp_path.iterdir()] == ["step_000000001"]
    assert int(checkpoints.restore(template()).step) == 1


def test_missing_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere: no checkpoint there; check the path"):
        Checkpoints(tmp_path / "nowhere", NETWORK).restore(template())
    with pytest.raises(UserError, match=r"nowhere: no such checkpoint"):
        load_parameters(tmp_path / "nowhere")


def restore(path: Path, network: Network = NETWORK, like: TrainingState | None = None) -> TrainingState:
    return Checkpoints(path.parent, network).restore(template() if like is None else like)


def test_another_network_is_refused(saved: Path) -> None:
    wider = Network(NetworkConfig(observation_size=6, width=32, projection_width=8))
    with pytest.raises(UserError, match=r"another network: width is 16 there, 32 here"):
        restore(saved, wider)


def test_another_optimiser_is_refused(saved: Path) -> None:
    other = init_state(NETWORK, optax.sgd(0.1), jax.random.PRNGKey(0))
    with pytest.raises(UserError, match="another optimiser"):
        restore(saved, like=other)


def change_manifest(path: Path, **changes: Any) -> None:
    file = path / "manifest.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "something"}, "manifest.json: format is not mallocmuzero-checkpoint"),
        ({"format_version": 99}, "format_version is 99, this code reads 1"),
        ({"leaves": None}, "field leaves is missing or malformed"),
        ({"step": "7"}, "field step is missing or malformed"),
    ],
)
def test_another_format_is_refused(saved: Path, changes: dict[str, Any], message: str) -> None:
    change_manifest(saved, **changes)
    with pytest.raises(FormatError, match=message):
        restore(saved)
    with pytest.raises(FormatError, match=message):
        load_parameters(saved)


def test_a_manifest_that_is_no_json_or_missing(saved: Path) -> None:
    manifest = saved / "manifest.json"
    manifest.write_text(manifest.read_text()[:100])
    with pytest.raises(FormatError, match=r"manifest.json: cannot be read"):
        restore(saved)
    manifest.unlink()
    with pytest.raises(FormatError, match=r"manifest.json: missing"):
        restore(saved)


def test_damaged_arrays_are_refused(saved: Path) -> None:
    largest = max((saved / "arrays").rglob("*"), key=lambda path: path.stat().st_size if path.is_file() else 0)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    with pytest.raises(FormatError, match=rf"{largest.name}: damaged"):
        restore(saved)
    largest.unlink()
    with pytest.raises(FormatError, match=rf"{largest.name}: missing"):
        restore(saved)
    shutil.rmtree(saved / "arrays")
    with pytest.raises(FormatError, match="missing"):
        load_parameters(saved)
