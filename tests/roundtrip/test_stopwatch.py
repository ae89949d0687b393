"""Times with options and without: paired rounds, equal results, arguments that calls use up."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mallocmuzero.env.capture import worker
from mallocmuzero.env.errors import UserError
from mallocmuzero.roundtrip.stopwatch import gain_of, time_options

PYTHON = Path(sys.executable)
MODEL = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
from worker import SHAPE

ARRAY = jax.ShapeDtypeStruct(SHAPE, jnp.float32)

def plain():
    return lambda x, n, key: (x @ x, n + 1, jax.random.bits(key)), (ARRAY, jnp.int32(3), jax.random.key(1))

def used_up():
    return jax.jit(lambda w, g: w - g, donate_argnums=0), (ARRAY, np.ones((64, 64), np.float32))

def sharded(devices):
    mesh = jax.sharding.Mesh(devices, ("data",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    return jnp.sum, (jax.ShapeDtypeStruct((64, 64), jnp.bfloat16, sharding=rows),)

def every_type():
    kinds = (jnp.bool_, jnp.int8, jnp.uint16, jnp.bfloat16, jnp.float16, jnp.complex64, jnp.float8_e4m3fn)
    return lambda *given: given, tuple(jax.ShapeDtypeStruct((3, 5), kind) for kind in kinds[:-2]) + (
        jnp.ones((3, 5), jnp.complex64), jnp.ones((3, 5), jnp.float8_e4m3fn))

def by_number():
    return jax.jit(lambda x, n: x * n, static_argnums=1), (ARRAY, 3)

def broken():
    raise ValueError("no such weights")
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "timed_model.py").write_text(MODEL, encoding="utf-8")
    # The user's, though a module of ours is called so.
    (tmp_path / "worker.py").write_text("SHAPE = (64, 64)", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("function", ["plain", "used_up", "sharded", "every_type"])
def test_a_function_is_timed_by_turns(folder: Path, function: str) -> None:
    timed = time_options(f"timed_model:{function}", {}, PYTHON, rounds=3)
    assert timed.platform == "cpu"
    assert len(timed.default_s) == len(timed.options_s) == 3
    assert min(*timed.default_s, *timed.options_s) > 0.0
    assert timed.same
    assert timed.calls >= 1


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("plain", {"xla_tpu_no_such": "1"}, "the compiler of this cpu refused: .*'xla_tpu_no_such'"),
        ("by_number", {}, r"arguments that are no arrays \(int\)"),
        ("broken", {}, "ValueError: no such weights"),
        ("nothing", {}, "has no function 'nothing'"),
    ],
)
def test_what_cannot_be_timed(folder: Path, function: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        time_options(f"timed_model:{function}", options, PYTHON, rounds=2)


def test_options_may_be_longer_than_an_argument_of_a_command(folder: Path) -> None:
    with pytest.raises(UserError, match="the compiler of this cpu refused"):
        time_options("timed_model:plain", {"xla_tpu_no_such": "1" * 2**18}, PYTHON, rounds=2)


def test_an_interpreter_without_jax(folder: Path) -> None:
    with pytest.raises(UserError, match="cannot be run"):
        time_options("timed_model:plain", {}, folder / "nowhere", rounds=2)


def test_digests_tell_bits_apart() -> None:
    script = """
import sys
import jax.numpy as jnp
sys.path.insert(0, sys.argv[1])
from timer import digest
x = jnp.arange(12.0).reshape(3, 4)
others = (x.at[2, 3].add(1e-6), x.at[0, 0].set(-0.0), x[::-1], x * jnp.nan)
print([digest(other) == digest(x) for other in (x + 0, *others)], digest(x * jnp.nan) == digest(x * jnp.nan))
"""
    folder = Path(worker.__file__).parent  # as it runs: alone
    done = subprocess.run([PYTHON, "-c", script, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[0] == "[True, False, False, False, False] True"


def test_the_gain_is_of_pairs() -> None:
    draw = np.random.default_rng(0)
    noise = np.exp(draw.normal(0.0, 0.3, 40))  # rounds differ by far more than the options gain
    gain, (low, high) = gain_of(tuple(noise), tuple(0.9 * noise * np.exp(draw.normal(0.0, 0.01, 40))))
    assert gain == pytest.approx(0.1, abs=0.01)
    assert 0.08 < low <= gain <= high < 0.12
    gain, (low, high) = gain_of(tuple(noise), tuple(draw.permutation(noise)))
    assert low < 0.0 < high
