"""The page of MaxText's training steps, beside its results; and how steps are dumped."""

import os
from pathlib import Path

import pytest

from benchmarks.common.json_lines import read_runs
from benchmarks.maxtext.dump import dump, version_of
from benchmarks.maxtext.measure import RESULTS, key_of
from benchmarks.maxtext.page import PAGE, render, summary
from benchmarks.maxtext.setups import SETUPS

SETUP = SETUPS[0]
# In the place of an interpreter with MaxText: says its version, or dumps a step and then compiles for ever.
INTERPRETER = """#!/bin/sh
if [ "$1" = -c ]; then echo 0.2.5; exit; fi
echo "$@" > {asked}
{trains}
"""
DUMPS = """
echo "module @jit_train_step {}" > "$JAX_DUMP_IR_TO/jax_ir0001_jit_train_step_compile.mlir"
echo "Dumped the module to jax_ir0001_jit_train_step_compile.mlir."
exec sleep 600
"""


def interpreter(folder: Path, trains: str) -> Path:
    """Returns an interpreter whose MaxText does `trains`."""
    path = folder / "python"
    path.write_text(INTERPRETER.format(asked=folder / "asked", trains=trains), encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    runs = dict(read_runs([RESULTS], key_of))
    assert render(page, list(runs.values())) == page
    for run in runs.values():
        assert run["setup"] in {setup.name for setup in SETUPS}
        if run["error"] is None:
            for model, us in run["confirmed_us"].items():  # what `robust` keeps is never worse than the default
                assert us <= run["default_us"][model] * (1 + 1e-9), (run["setup"], model)


def test_the_summary_counts_failures_among_the_steps() -> None:
    before = {"msa": 100.0, "cycles": 100.0}
    tuned = {
        "maxtext": "0.2.5",
        "versions": {"jax": "0.12", "libtpu": "0.0.52"},
        "default_us": before,
        "flags_us": {"msa": 95.0, "cycles": 95.0},
        "confirmed_us": {"msa": 90.0, "cycles": 95.0},
    }
    lines = summary([tuned], [{"setup": "a", "devices": "0", "error": "out of memory"}])
    assert lines == [
        "- 1 of 2 steps gain under both models.",
        "- Mean confirmed gain over XLA's default, 1 steps: +10.00 % in `msa`, +5.00 % in `cycles`.",
        "- Mean confirmed gain over the best of the flag grid, 1 steps: +5.26 % in `msa`, +0.00 % in `cycles`.",
        "- MaxText 0.2.5, jax 0.12, libtpu 0.0.52.",
        "- `a`, devices 0, failed: out of memory",
    ]


def test_a_step_is_kept_as_soon_as_it_is_dumped(tmp_path: Path) -> None:
    python, path = interpreter(tmp_path, DUMPS), tmp_path / "steps" / "step.mlir"
    dump(python, SETUP, path, minutes=1.0)
    assert path.read_text(encoding="utf-8") == "module @jit_train_step {}\n"
    assert version_of(python) == "0.2.5"
    asked = (tmp_path / "asked").read_text(encoding="utf-8")
    assert f"model_name={SETUP.model} compile_topology={SETUP.chips}" in asked
    left = [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if f"{tmp_path}".encode() in _bytes(entry)]
    assert not [entry for entry in left if entry.parent.name != str(os.getpid())]


def _bytes(entry: Path) -> bytes:
    try:
        return entry.read_bytes()
    except OSError:  # it has ended
        return b""


def test_a_trainer_that_dumps_nothing_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"no training step was dumped\nno such model"):
        dump(interpreter(tmp_path, "echo no such model; exit 1"), SETUP, tmp_path / "step.mlir")
    assert not (tmp_path / "step.mlir").exists()


def test_an_interpreter_without_maxtext_is_refused(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(SystemExit, match="has no MaxText"):
        version_of(tmp_path / "python")
