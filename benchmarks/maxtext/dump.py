"""Has MaxText dump a training step: what its trainer gives to the compiler, as a file of StableHLO."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

from .setups import Setup

# What JAX calls the file of the training step: the function is named `train_step`.
_STEP = "jax_ir*_jit_train_step_compile.mlir"
# JAX says so when the file is whole.
_DUMPED = "Dumped the module to"


def dump(python: Path, setup: Setup, path: Path, minutes: float = 10.0) -> None:
    """Dumps the training step of `setup` into `path`, with the MaxText that an interpreter has.

    MaxText compiles ahead of time for chips that are not there. It is stopped as soon as its step is written.

    Raises:
      RuntimeError: it ended, or took too long, before it wrote a step; the message has the end of its output.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [python, "-m", "maxtext.trainers.pre_train.train_compile", *setup.arguments]
        with log.open("wb") as file:
            process = subprocess.Popen(
                [*map(str, command), f"base_output_directory={folder}/out", "run_name=dump"],
                env={**os.environ, "JAX_DUMP_IR_TO": folder, "JAX_PLATFORMS": "cpu"},
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        try:
            until = time.monotonic() + 60.0 * minutes
            while not (steps := _steps(Path(folder), log)):
                if process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"{setup.name}: no training step was dumped\n{_read(log)[-3000:]}")
                time.sleep(0.5)
        finally:
            process.kill()
            process.wait()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(steps[-1].read_bytes())


def _steps(folder: Path, log: Path) -> list[Path]:
    """Returns the steps that are written whole, by the names in the log."""
    told = _read(log)
    return [step for step in sorted(folder.glob(_STEP)) if f"{_DUMPED} {step.name}" in told]


def _read(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")


def version_of(python: Path) -> str:
    """Returns the version of MaxText that an interpreter has.

    Raises:
      SystemExit: it has none.
    """
    code = "import importlib.metadata as m; print(m.version('maxtext'))"
    found = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if found.returncode:
        raise SystemExit(f"{python}: has no MaxText; `pip install 'maxtext[tpu]'` with it, under Python 3.12")
    return found.stdout.strip()
