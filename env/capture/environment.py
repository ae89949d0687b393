"""The Python environment that compiles (pipeline step 1): made once, with the versions of `packages.json`, and kept.

For options meant for another version of jax, another environment is made, with the packages that pip picks for it.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ..errors import UserError
from ..storage.cache import cache_folder

PACKAGES = Path(__file__).parent / "packages.json"
_COMPLETE = "complete"
_NOT_FOUND = "Could not find a version that satisfies the requirement"
# What an environment for another version of jax has besides jax and the libtpu that pip picks for it.
_BESIDE = ("flax", "optax")


def packages() -> dict[str, str]:
    """Returns the version of every package of the environment; the committed programs were captured with them."""
    return dict(json.loads(PACKAGES.read_text(encoding="utf-8")))


def interpreter_path(given: str | Path) -> Path:
    """Returns the path of an interpreter as a shell reads it: with a slash it is a path from this folder, which becomes
    absolute, since `Path` would drop the `./` of one; without, a name to search for."""
    return Path(given).absolute() if os.sep in str(given) else Path(given)


def check_interpreter(python: Path | None, jax: str | None = None) -> None:
    """Raises UserError if an interpreter, a path or a name to search for, is not there or cannot be run.

    Also if `jax` is not a version, or comes with an interpreter, which has a jax of its own.
    """
    if python is not None:
        _located(python)
    if jax is not None and not re.fullmatch(r"\d+(\.\d+)+", jax):
        raise UserError(f"--jax {jax}: give a version, such as 0.9.2")
    if jax is not None and python is not None:
        raise UserError(f"--jax {jax}: {python} has a jax of its own; give --python or --jax")


def find_interpreter(python: Path | None, jax: str | None, progress: Callable[[str], None]) -> Path:
    """Returns the interpreter that compiles, as an absolute path; arguments and errors as in `managed_python`.

    It is `python`, a path or a name to search for; or this interpreter, if it has libtpu and no version is asked for;
    or the managed environment's.

    Raises:
      UserError: `python` is not there or cannot be run.
    """
    if python is not None:
        return _located(python)
    return Path(sys.executable) if jax is None and _has_libtpu() else managed_python(progress, jax)


def _located(python: Path) -> Path:
    """Returns where an interpreter is, since the compiler runs in another folder; `UserError` if it cannot be run."""
    found = shutil.which(python)
    if found is None:
        why = "there is no such program" if not python.exists() else "it cannot be run"
        raise UserError(f"--python {python}: {why}; give an interpreter that has jax and libtpu, or leave it out")
    return Path(found).absolute()  # Links stay: behind the link of a virtual environment its packages are lost.


def _has_libtpu() -> bool:
    try:
        return all(importlib.metadata.version(name) for name in ("jax", "libtpu"))
    except importlib.metadata.PackageNotFoundError:
        return False


def managed_python(progress: Callable[[str], None], jax: str | None = None) -> Path:
    """Returns the interpreter of the managed environment, and makes the environment if there is none yet.

    Args:
      progress: takes one line at a time.
      jax: version of jax, with the libtpu that pip picks for it; None for the versions of `packages.json`.

    Raises:
      UserError: the environment cannot be made.
    """
    pins = [f"{name}=={version}" for name, version in packages().items()]
    if jax is not None:
        pins = [f"jax[tpu]=={jax}", *_BESIDE]
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
            try:
                _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *pins])
            except UserError as error:
                if jax is None or f"{_NOT_FOUND} jax[tpu]" not in str(error) or "from versions: none" in str(error):
                    raise
                running = ".".join(map(str, sys.version_info[:2]))
                raise UserError(
                    f"--jax {jax}: pip finds no such version for Python {running}; give one that it finds, or --python "
                    "an interpreter that has it"
                ) from error
            (folder / _COMPLETE).touch()
    except OSError as error:
        raise UserError(
            f"{folder}: cannot make the capture environment ({error.strerror or error}); give --python, or set "
            "XDG_CACHE_HOME to a folder that can be written"
        ) from error
    return python


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line] or lines[-1:] or ["no message"]
        # pip begins with the versions that it passes over.
        reason = next((line for line in errors if _NOT_FOUND in line), errors[0])
        raise UserError(
            f"cannot make the capture environment: `{' '.join(command[1:4])} ...` failed: {reason.strip()}; "
            "give --python an interpreter that has jax and libtpu"
        )
