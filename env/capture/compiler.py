"""The compiler's process (pipeline step 1): traces a function once, in another interpreter, and compiles on request."""

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import FormatError, UserError
from . import worker

TIME_LIMIT_S = 3600.0
# How far a compilation goes: to the end, until memory is assigned, or only until the function is lowered (`worker.py`).
CODE = "code"
ASSIGNMENT = "assignment"
LOWERING = "lowering"


class TimeLimitError(UserError):
    """A compilation reached its time limit."""


class _EndedError(UserError):
    """A signal from elsewhere ended the compiler's process."""


class Compiler:
    """Compiles one function. A process that has ended is started again at the next compilation.

    Attributes:
      time_limit_s: see below; may be changed between compilations.

    Args:
      python: interpreter with jax, libtpu and the packages that the function needs.
      function: `PKG.MODULE:FUNCTION`, or the absolute path of a lowered module.
      topology: the topology to compile for.
      folder: takes the process's own log and the versions.
      working_folder: searched first for the function's module; None for the current folder.
      time_limit_s: seconds after which one compilation is given up.
      name: name of the function in messages; None for `function`.
    """

    def __init__(
        self,
        python: Path,
        function: str,
        topology: str,
        folder: Path,
        *,
        working_folder: Path | None = None,
        time_limit_s: float = TIME_LIMIT_S,
        name: str | None = None,
    ) -> None:
        self._name = function if name is None else name
        self._python, self._function, self._topology, self._folder = python, function, topology, folder
        self._working_folder, self.time_limit_s = working_folder, time_limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> "Compiler":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def compile(self, folder: Path, options: Mapping[str, str], through: str = CODE, *, dump: bool = False) -> float:
        """Compiles into `folder`, which must be empty.

        A compilation that a signal from elsewhere ended (out of memory, for one) is tried once more.

        Args:
          folder: takes the files; see `worker.py`.
          options: compiler options.
          through: `CODE`, `ASSIGNMENT` or `LOWERING`.
          dump: leave the compiler's dumps too.

        Returns:
          Seconds of processor time.

        Raises:
          UserError: the function cannot be compiled, the compiler crashed, or the time limit was reached.
          OSError: the process's own log cannot be written.
        """
        try:
            return self._compile(folder, options, through, dump)
        except _EndedError:
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return self._compile(folder, options, through, dump)

    def _compile(self, folder: Path, options: Mapping[str, str], through: str, dump: bool) -> float:
        process = self._running()
        request = {"folder": str(folder), "options": dict(options), "through": through, "dump": dump}
        answer = self._answer(process, json.dumps(request).encode() + b"\n", folder)
        if through == ASSIGNMENT:
            self._kill()
        if answer["error"] is not None:
            raise UserError(f"{self._name}: {answer['error']}")
        return float(answer["cpu_s"])

    def versions(self) -> dict[str, str]:
        """Returns the versions of jax and libtpu that compiled.

        Raises:
          FormatError: the worker did not report them.
        """
        path = self._folder / worker.VERSIONS_FILE
        try:
            versions = json.loads(path.read_text(encoding="utf-8"))
            return {key: str(versions[key]) for key in ("jax", "libtpu")}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{path}: does not say which jax and libtpu were used; capture again") from error

    def close(self) -> None:
        """Ends the process."""
        self._kill()

    def _running(self) -> subprocess.Popen[bytes]:
        """Returns the process, started if there is none."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._kill()
        self._unread = b""
        command = [str(self._python), worker.__file__, self._function, self._topology, str(self._folder)]
        with (self._folder / "worker.txt").open("ab") as stderr:
            try:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=self._working_folder,
                    env={**os.environ, **worker.compiler_settings()},
                    start_new_session=True,
                )
            except OSError as error:
                raise UserError(
                    f"{self._python}: cannot be run ({error.strerror}); give --python an interpreter"
                ) from error
        assert process.stdin is not None
        os.set_blocking(process.stdin.fileno(), False)
        self._process = process
        return process

    def _answer(self, process: subprocess.Popen[bytes], request: bytes, folder: Path) -> dict[str, Any]:
        """Hands over a request, waits for the line that ends its compilation, and returns the contents of that line.

        The request is written as the process takes it: it reads none while it imports and traces, a pipe holds little,
        and what it prints meanwhile must be read.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        until = time.monotonic() + self.time_limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            while True:
                line, ends, rest = self._unread.partition(b"\n")
                if ends:
                    self._unread = rest
                    text = line.decode("utf-8", "replace")
                    for mark in (worker.DONE, worker.MARK):
                        _, found, said = text.partition(mark)
                        if found and mark == worker.MARK:
                            self._kill()
                            raise UserError(said)
                        if found:
                            answer: dict[str, Any] = json.loads(said)
                            return answer
                    continue
                left = until - time.monotonic()
                ready = selector.select(left) if left > 0 else []
                if not ready:
                    self._kill()
                    raise TimeLimitError(
                        f"{self._name}: not compiled after {self.time_limit_s:.0f} s; raise the time limit or "
                        "take a smaller model"
                    )
                files = {key.fileobj for key, _ in ready}
                if process.stdin in files:
                    request = _written(process.stdin.fileno(), request)
                    if not request:
                        selector.unregister(process.stdin)
                if process.stdout not in files:
                    continue
                more = os.read(process.stdout.fileno(), 65536)
                if not more:
                    status = process.wait()
                    self._kill()
                    kind = _EndedError if -status in (signal.SIGTERM, signal.SIGKILL) else UserError
                    raise kind(self._reason(status, folder))
                self._unread += more

    def _reason(self, status: int, folder: Path) -> str:
        """Returns one line on why the process ended without an answer."""
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
        last, fatal = "", ""
        for log in (self._folder / "worker.txt", folder / worker.LOG_FILE):
            if log.exists():
                with log.open(encoding="utf-8", errors="replace") as file:
                    for line in file:
                        if line.strip() and line[0] not in "IW":
                            last = line.strip()
                            if line[0] == "F" and "Check failed" in line:
                                fatal = last.partition("] ")[2]
        last = fatal or last
        detail = f" ({last:.200})" if last else ""
        return f"{self._name}: the compilation {how}{detail}; --keep FOLDER keeps its log"

    def _kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _written(pipe: int, data: bytes) -> bytes:
    """Writes to a pipe that does not block as much as it takes, and returns the rest; none if nobody reads it."""
    try:
        return data[os.write(pipe, data) :]
    except BlockingIOError:
        return data
    except BrokenPipeError:  # The process has said why on standard output.
        return b""
