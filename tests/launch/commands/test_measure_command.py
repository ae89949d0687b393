"""`mallocmuzero measure`: on the CPU of this machine, where options of a TPU are refused."""

import json
import sys
from pathlib import Path

import pytest
from launch_cases import call

MODEL = """
import jax
import jax.numpy as jnp

def step():
    return lambda x: x @ x, (jax.ShapeDtypeStruct((64, 64), jnp.float32),)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "measured_model.py").write_text(MODEL, encoding="utf-8")
    (tmp_path / "options.flags").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_times_and_results_are_compared(folder: Path) -> None:
    status, printed, errors = call(
        *("measure", "measured_model:step", "options.flags", "--rounds", "4", "--json", "r.json"),
        *("--python", sys.executable),
    )
    result = json.loads((folder / "r.json").read_text(encoding="utf-8"))
    low, high = result["gain_percent_interval"]
    assert low <= result["gain_percent"] <= high
    assert (result["rounds"], result["platform"], result["same"]) == (4, "cpu", True)
    assert len(result["default_us"]) == len(result["options_us"]) == 4
    assert result["holds"] == (high >= 0.0) == (status == 0), errors
    assert "medians of 4 rounds" in printed
    assert "the results are the same, bit for bit" in printed
    assert "this is a cpu: nothing of this is known of a TPU" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("measured_model:step", "options.flags", "--rounds", "1"), "--rounds 1: give 2 or more"),
        (("step.mlir", "options.flags"), "is a module, which has no arguments"),
        (("measured_model:stop", "options.flags"), "defines no function 'stop'; did you mean step?"),
        (("measured_model:step", "options.flags", "--python", "nowhere"), "--python nowhere: there is no such program"),
        (("measured_model:step", "options.json"), "options.json: cannot be read"),
        (("measured_model:step", "tpu.flags"), "the compiler of this cpu refused"),
    ],
)
def test_what_cannot_be_measured(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "tpu.flags").write_text("--xla_msa_max_repacks=3\n", encoding="utf-8")
    status, _, errors = call("measure", *arguments)
    assert status == 2
    assert message in errors
