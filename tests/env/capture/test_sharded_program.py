"""Sharded functions: the program of one partition, with its collectives."""

from pathlib import Path

import numpy as np
import pytest
from compiler_cases import real_python

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.program_file import read_module, read_program
from mallocmuzero.env.program.target import GENERATIONS, TOPOLOGIES, find_target
from mallocmuzero.env.verifier.verify import verify

# A training step of two layers on 2 x 2 chips of v5e, sharded by data and by model.
SHARDED = Path(__file__).parent / "data" / "sharded" / "mlp-train-v5e-2x2.json.gz"
FUNCTION = """
import jax, jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

def layer(devices):
    mesh = Mesh(devices[::-1].reshape(2, 2), ("data", "model"))
    def array(shape, *axes):
        return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, P(*axes)))
    def step(a, b, x):
        return jnp.tanh(x @ a) @ b
    return step, (array((512, 2048), None, "model"), array((2048, 512), "model", None), array((256, 512), "data", None))
"""


def test_one_partition_is_the_program():
    program = read_program(SHARDED)
    assert program.production is not None
    assert program.provenance["topology"] == "v5e:2x2"
    assert verify(program, program.target, program.production) == []
    assert estimates_off(program, program.production) == pytest.approx(
        dict.fromkeys(("without_copies", "with_copies"), 0.0), abs=1e-4
    )
    collectives = [t for t, opcode in enumerate(program.opcodes) if opcode == "all-reduce"]
    assert len(collectives) == 5
    # Half of each weight, and half of the batch: the other halves are another partition's.
    inputs = (program.definition < 0) & program.fast_allowed
    assert sorted(program.size[inputs].tolist()) == [512 * 1024, *[1024 * 4096] * 4]
    for t in collectives:
        assert program.bytes_total[t] > 0


def test_a_target_may_be_a_topology():
    assert find_target("v5e") == (GENERATIONS["v5e"], TOPOLOGIES["v5e"])
    assert find_target("v5e:2x2") == (GENERATIONS["v5e"], "v5e:2x2")
    for name in ("v9", "v9:2x2", "v5e:", "2x2"):
        with pytest.raises(UserError, match="no target is called"):
            find_target(name)


def test_a_function_that_takes_an_argument_is_given_the_devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    functions = "def one(devices): return len, (devices.size,)\ndef none(): return len, ()\n"
    functions += "def known(size=3): return len, (size,)\n"
    (tmp_path / "meshes.py").write_text(functions, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    devices = np.arange(4)
    assert worker.describe("meshes:one", devices) == (len, (4,), {})
    assert worker.describe("meshes:none", devices) == (len, (), {})
    assert worker.describe("meshes:known", devices) == (len, (3,), {})


def test_the_real_compiler_shards(tmp_path: Path):
    """It makes the same program of the lowered module in the file, whose devices are in another order than given."""
    python, path = real_python(), tmp_path / "layer.json.gz"
    (tmp_path / "meshes.py").write_text(FUNCTION, encoding="utf-8")
    program = capture("meshes:layer", "v5e:2x2", path, python=python, working_folder=tmp_path)
    assert program.production is not None
    assert any(opcode.startswith("all-reduce") for opcode in program.opcodes)
    module = read_module(path)
    assert module is not None
    assert b"mallocmuzero.devices" in module
    again = capture("meshes:layer", "v5e:2x2", tmp_path / "again.json.gz", python=python, module=module, quick=True)
    assert again.sha256 == program.sha256
