"""Another version of jax and libtpu, as pip installs them: its mapping is read and foreseen, and it does as it is told.

MALLOCMUZERO_OTHER_PYTHON names the interpreter that has them.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from mallocmuzero.env.capture.printed_estimate import TOLERANCE
from mallocmuzero.env.program.program_file import read_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.launch.api.tune import tune
from mallocmuzero.solvers.xla.decoder import Decoder

STEP = """
import jax, jax.numpy as jnp

def step():
    def loss(weights, x):
        skips = []
        for w in weights:
            x = jax.nn.relu(x @ w)
            skips.append(x)
        return sum(jnp.mean(s.astype(jnp.float32) ** 2) for s in skips)

    def train(weights, x):
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights, x))

    weights = [jax.ShapeDtypeStruct((512, 512), jnp.bfloat16)] * 6
    return train, (weights, jax.ShapeDtypeStruct((16384, 512), jnp.bfloat16))
"""


def test_another_version_is_read_and_does_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = os.environ.get("MALLOCMUZERO_OTHER_PYTHON")
    if not python:
        pytest.skip("MALLOCMUZERO_OTHER_PYTHON names no interpreter with another jax and libtpu")
    (tmp_path / "other_model.py").write_text(STEP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.json.gz"
    found = tune(
        "other_model:step",
        target="v5e",
        minutes=0.5,
        solver="order-search",
        objective="msa",
        python=python,
        program_output=path,
    )
    program = read_program(path)
    assert program.production is not None
    assert verify(program, program.target, program.production) == []
    assert program.compiler["inexpressible"] == {}
    assert all(off is not None and abs(off) <= TOLERANCE for off in program.compiler["estimates_off"].values())
    alike = Decoder(program).decode().access_fast == program.production.access_fast
    assert np.average(alike, weights=program.access_bytes) > 0.99
    kept = next(one for one in found.report["candidates"] if one["kept"])
    assert found.report["decoded_as_foreseen"]["bytes"] > 0.99, kept
    assert found.gain_percent["msa"] is not None
    assert found.gain_percent["msa"] > 1.0
