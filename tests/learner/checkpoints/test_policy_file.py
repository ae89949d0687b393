"""Policy files: what is read is what was written, to half precision, and damage is named."""

import gzip
from pathlib import Path

import jax
import numpy as np
import pytest

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.learner.checkpoints.policy_file import read_policy, write_policy
from mallocmuzero.learner.networks.network import Network, NetworkConfig

NETWORK = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))


def test_it_plays_as_it_was_written(tmp_path: Path) -> None:
    params = NETWORK.init(jax.random.PRNGKey(3))
    params = jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(jax.random.PRNGKey(1), leaf.shape), params)
    path = tmp_path / "a.policy"
    write_policy(path, NETWORK, params, {"seed": 3, "workloads": ["tiny"]})
    policy = read_policy(path)
    assert policy.info == {"seed": 3, "workloads": ["tiny"]}
    assert policy.network.config == NETWORK.config
    observation = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
    before = NETWORK.initial_inference(params, observation)
    after = policy.network.initial_inference(policy.params, observation)
    assert np.allclose(before.policy_logits, after.policy_logits, atol=2e-2)
    assert not np.array_equal(before.policy_logits, after.policy_logits)  # half precision
    action = np.array([0, 2])
    steps = [
        network.recurrent_inference(parameters, output.latent, action)
        for network, parameters, output in ((NETWORK, params, before), (policy.network, policy.params, after))
    ]
    assert np.allclose(steps[0].value, steps[1].value, atol=2e-2)


def test_the_same_policy_is_the_same_file(tmp_path: Path) -> None:
    params = NETWORK.init(jax.random.PRNGKey(3))
    for name in ("a", "b"):
        write_policy(tmp_path / name, NETWORK, params, {})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("damage", ["cut", "other", "format", "version", "shape"])
def test_damage_is_named(tmp_path: Path, damage: str) -> None:
    from flax import serialization

    path = tmp_path / "a.policy"
    write_policy(path, NETWORK, NETWORK.init(jax.random.PRNGKey(3)), {})
    whole = path.read_bytes()
    document = serialization.msgpack_restore(gzip.decompress(whole))
    if damage == "cut":
        path.write_bytes(whole[:-100])
    elif damage == "other":
        path.write_bytes(b"no policy at all")
    else:
        document["format"] = "something" if damage == "format" else document["format"]
        document["format_version"] = 99 if damage == "version" else document["format_version"]
        if damage == "shape":
            document["parameters"]["dynamics"]["action"]["kernel"] = np.zeros((2, 2), np.float16)
        path.write_bytes(gzip.compress(serialization.msgpack_serialize(document)))
    words = {"format": "`format`", "version": "format_version", "shape": "dynamics"}
    with pytest.raises(FormatError, match=words.get(damage, "no policy file")):
        read_policy(path)
    assert "a.policy" in str(path)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_policy("nowhere.policy")
