"""The Python environment that compiles (pipeline step 1): made once, with the versions of `packages.json`, and kept."""

import fcntl
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError
from ..storage.cache import cache_folder

PACKAGES = Path(__file__).parent / "packages.json"
_COMPLETE = "complete"


def packages() -> dict[str, str]:
    """Returns the version of every package of the environment; the committed programs were captured with them."""
    return dict(json.loads(PACKAGES.read_text(encoding="utf-8")))


def check_interpreter(python: Path) -> None:
    """Raises UserError if an interpreter, a path or a name to search for, is not there or cannot be run."""
    if shutil.which(python) is None:
        why = "there is no such program" if not python.exists() else "it cannot be run"
        raise UserError(f"--python {python}: {why}; give an interpreter that has jax and libtpu, or leave it out")


def managed_python(progress: Callable[[str], None]) -> Path:
    """Returns the interpreter of the managed environment, and makes the environment if there is none yet.

    Args:
      progress: takes one line at a time.

    Raises:
      UserError: the environment cannot be made.
    """
    pins = [f"{name}=={version}" for name, version in packages().items()]
    key = hashlib.sha256("\n".join([*pins, sys.version]).encode()).hexdigest()[:12]
    folder = cache_folder() / f"capture-{key}"
    python = folder / "bin" / "python"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f"capture-{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (folder / _COMPLETE).exists() and python.exists():
                progress(f"capture environment: {folder}")
                return python
            progress(f"making the capture environment, once: {folder} ({', '.join(pins)})")
            shutil.rmtree(folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(folder)])
            _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins])
            (folder / _COMPLETE).touch()
    except OSError as error:
        raise UserError(
            f"{folder}: cannot make the capture environment ({error.strerror or error}); give --python"
        ) from error
    return python


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        reason = next((line for line in lines if "ERROR" in line), lines[-1] if lines else "no message")
        raise UserError(
            f"cannot make the capture environment: `{' '.join(command[1:4])} ...` failed: {reason.strip()}; "
            "give --python an interpreter that has jax and libtpu"
        )
