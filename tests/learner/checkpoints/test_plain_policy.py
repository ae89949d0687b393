"""Parameters of policy files, read without JAX."""

import gzip
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from mallocmuzero.env.errors import FormatError
from mallocmuzero.launch.run.shipped import SHIPPED
from mallocmuzero.learner.checkpoints.plain_policy import read_plain_parameters
from mallocmuzero.learner.checkpoints.policy_file import read_policy, write_policy
from mallocmuzero.learner.networks.network import Network, NetworkConfig

NETWORK = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))


def test_it_reads_what_policy_files_hold(tmp_path: Path) -> None:
    path = tmp_path / "a.policy"
    write_policy(path, NETWORK, NETWORK.init(jax.random.PRNGKey(0)), {"run": "a"})
    plain, policy = read_plain_parameters(path), read_policy(path)
    assert set(plain) == set(policy.params) - {"projection", "projection_predictor"}
    for name, part in plain.items():
        jax.tree.map(np.testing.assert_array_equal, part, jax.device_get(policy.params[name]))


@pytest.mark.parametrize(
    "content",
    [b"", b"no policy", gzip.compress(b"\xc1", mtime=0), gzip.compress(b"\x81\xa1a\x01", mtime=0)],
    ids=["empty", "text", "no msgpack", "no policy"],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.policy"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"other\.policy"):
        read_plain_parameters(path)


def test_solvers_read_the_shipped_policy_without_jax() -> None:
    code = (
        "import sys; from mallocmuzero.launch.run.guided import read_scoring_parameters as read; read(None); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert SHIPPED.exists()
