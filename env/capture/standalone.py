"""Runs the scripts of this folder that import nothing from the package, each in an interpreter that has jax."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UserError
from . import worker

_FOLDER = Path(worker.__file__).parent


def run_alone(
    script: str,
    python: Path,
    *arguments: str,
    environment: Mapping[str, str],
    about: str,
    task: str,
    given: str = "",
) -> dict[str, Any]:
    """Runs a script; returns its answer, the object in the line that begins with `worker.DONE`.

    Args:
      script: its name in this folder.
      python: the interpreter.
      arguments: of the script; Linux limits each to 128 KiB.
      environment: all variables of its process.
      about: the file or function that messages begin with.
      task: what the script does, in words, for the message where it ends without an answer.
      given: its standard input, of any length.

    Raises:
      UserError: the interpreter cannot be run, or the script failed; the message is the script's own if it has one.
    """
    command = [str(python), str(_FOLDER / script), *arguments]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", check=False, env=dict(environment)
        )
    except OSError as error:
        raise UserError(f"{python}: cannot be run ({error.strerror}); give --python an interpreter") from error
    for line in done.stdout.splitlines():
        if line.startswith(worker.MARK):
            raise UserError(f"{about}: {line.removeprefix(worker.MARK)}")
        if line.startswith(worker.DONE):
            answer: dict[str, Any] = json.loads(line.removeprefix(worker.DONE))
            return answer
    last = next(iter(reversed(done.stderr.strip().splitlines())), f"status {done.returncode}")
    raise UserError(f"{about}: {python} cannot {task}: {last}")
