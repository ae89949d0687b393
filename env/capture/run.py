"""Captures a program: compiles a user's function in another interpreter and writes the program file."""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ..errors import FormatError, UserError
from ..files import write_program
from ..program import Program
from ..target import GENERATIONS, TOPOLOGIES
from . import worker
from .assemble import LOG_FILE, assemble
from .environment import managed_python

TIME_LIMIT_S = 3600.0
_NO_OPTIONS: Mapping[str, str] = {}


def capture(
    function: str,
    target: str,
    output: Path,
    *,
    python: Path | None = None,
    name: str | None = None,
    family: str | None = None,
    options: Mapping[str, str] = _NO_OPTIONS,
    working_folder: Path | None = None,
    keep: Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    progress: Callable[[str], None] = print,
) -> Program:
    """Compiles `function` for a TPU and writes the program with XLA's production mapping to `output`.

    Args:
      function: `PKG.MODULE:FUNCTION`; takes no argument and returns `(function, arguments)`, see `worker.py`.
      target: a key of `TOPOLOGIES`.
      output: the program file.
      python: interpreter with jax, libtpu and whatever the function needs; by default a managed environment.
      name: name of the workload; by default the function's, with dashes.
      family: its model family; by default the name.
      options: compiler options.
      working_folder: where the module is looked for first; by default the current folder.
      keep: folder to leave dumps and log in; by default they are temporary.
      time_limit_s: seconds after which the compilation is given up.
      progress: takes one line at a time.

    Returns:
      The program, as written.

    Raises:
      UserError: something that the user gave does not work; the message says what.
      FormatError: the compiler's output is not what capture understands.
    """
    module, _, attribute = function.partition(":")
    if not module or not attribute:
        raise UserError(f"{function!r} is no PKG.MODULE:FUNCTION, e.g. my_model:training_step")
    if target not in TOPOLOGIES:
        raise UserError(f"no target is called {target!r}; the targets are {', '.join(TOPOLOGIES)}")
    if not output.parent.is_dir():
        raise UserError(f"{output}: there is no folder {output.parent}; make it first")
    name = name or attribute.replace("_", "-")
    interpreter = managed_python(progress) if python is None else python
    with _folder(keep) as folder:
        progress(f"compiling {function} for {target} with {interpreter}; large models take minutes")
        _compile(interpreter, function, TOPOLOGIES[target], folder, options, working_folder, time_limit_s)
        size = (folder / LOG_FILE).stat().st_size / 2**20
        progress(f"reading the compiler's dumps and log ({size:.0f} MiB)")
        provenance = {
            "function": function,
            "topology": TOPOLOGIES[target],
            "compiler_options": dict(options),
            **_versions(folder / "versions.json"),
        }
        program = assemble(folder, GENERATIONS[target], name, family or name, provenance)
    write_program(program, output)
    for reason, count in program.compiler["inexpressible"].items():
        progress(f"of XLA's mapping not expressible: {reason}, {count} times")
    if program.production is None:
        progress("XLA's mapping is left out: it cannot be told without breaking the rules")
    progress(f"wrote {output}: {program.num_instructions} instructions, {program.num_buffers} buffers")
    return program


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="mallocmuzero-capture-") as temporary:
            yield Path(temporary)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        empty = not any(keep.iterdir())
    except OSError as error:
        raise UserError(f"{keep}: cannot be made ({error.strerror})") from error
    if not empty:
        raise UserError(f"{keep}: is not empty; give a new folder")
    yield keep.resolve()


def _compile(
    python: Path,
    function: str,
    topology: str,
    folder: Path,
    options: Mapping[str, str],
    working_folder: Path | None,
    time_limit_s: float,
) -> None:
    """Runs the worker. What the compiler writes to standard error becomes the log."""
    command = [str(python), worker.__file__, function, topology, str(folder)]
    command += [f"{key}={value}" for key, value in options.items()]
    said = folder / "said.txt"
    log = folder / LOG_FILE
    try:
        with said.open("wb") as stdout, log.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=working_folder,
                env={**os.environ, **worker.compiler_settings()},
                start_new_session=True,
            )
            try:
                status = process.wait(time_limit_s)
            except subprocess.TimeoutExpired:
                raise UserError(
                    f"{function}: not compiled after {time_limit_s:.0f} s; raise the time limit or take a smaller model"
                ) from None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
    except OSError as error:
        raise UserError(f"{python}: cannot be run ({error.strerror}); give --python an interpreter") from error
    if status:
        raise UserError(_reason(function, status, said, log))


def _reason(function: str, status: int, said: Path, log: Path) -> str:
    """Returns one line on why the worker failed."""
    for line in said.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(worker.MARK):
            return line.removeprefix(worker.MARK)
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    last = ""
    with log.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.strip() and line[0] not in "IW":
                last = line.strip()
    return f"{function}: the compilation {how}{f' ({last:.200})' if last else ''}; --keep FOLDER keeps its log"


def _versions(path: Path) -> dict[str, str]:
    try:
        versions = json.loads(path.read_text(encoding="utf-8"))
        return {key: str(versions[key]) for key in ("jax", "libtpu")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FormatError(f"{path}: does not say which jax and libtpu were used; capture again") from error
