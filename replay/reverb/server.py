"""The handle of a Reverb server in a process of its own: starts, restores and stops it.

The child is a fresh interpreter, not a fork, so that it carries no state of JAX. It lives as long as its parent holds
the pipe to its standard input. Reverb 0.14 listens on every network interface and has no authentication, and its API
cannot change either: on a machine that strangers reach, close the port with a firewall.
"""

import contextlib
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from ...env.errors import UserError
from .. import checkpoint
from ..config import ReplayConfig
from ..segment import SegmentSpec
from .stored_table import KIND

_log = logging.getLogger(__name__)
_START_TIMEOUT_S = 300.0
# Reverb's checkpoints, in the scratch folder.
_CHECKPOINTS = "checkpoints"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ReplayServer:
    """A running Reverb server; the constructor returns once it answers.

    Args:
      config: settings of the table.
      spec: sizes of steps and segments.
      host: name under which clients reach this machine. With the default, or another name of the loopback device, only
        processes of this machine can.
      port: TCP port, or None for a free one.
      restore_from: a checkpoint folder to start with, or None for an empty table.

    Attributes:
      address: `host:port`, for `ReverbReplay`.

    Raises:
      UserError: Reverb is missing, the port is taken, or the server could not start (with the end of its log).
      FormatError, UserError: `restore_from` does not fit, as `Replay.restore` says.
    """

    def __init__(
        self,
        config: ReplayConfig,
        spec: SegmentSpec,
        *,
        host: str = "localhost",
        port: int | None = None,
        restore_from: str | PathLike[str] | None = None,
    ) -> None:
        self.config = config
        self.spec = spec
        self._host = host
        self._process: subprocess.Popen[str] | None = None
        # Reverb's checkpoints and log are written here; `ReverbReplay.checkpoint` moves the checkpoints out.
        self._scratch = Path(tempfile.mkdtemp(prefix="mallocmuzero-replay-"))
        try:
            self._start(port, restore_from)
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if the server's process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def end(self) -> str:
        """The way in which a server that is not alive ended: `signal 9`, `exit status 1`."""
        code = None if self._process is None else self._process.poll()
        return "stopped" if code is None else f"signal {-code}" if code < 0 else f"exit status {code}"

    @property
    def log(self) -> str:
        """The text that the server has written to its standard error."""
        path = self._scratch / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def restore(self, directory: str | PathLike[str]) -> None:
        """Replaces the server by one that starts from a checkpoint, at the same address. Raises as the constructor."""
        checkpoint.read(directory, KIND, self.config, self.spec)
        port = int(self.address.rsplit(":", 1)[1])
        self._end_process(10)
        self._start(port, directory)

    def remove_leftovers(self) -> None:
        """Removes what a failed checkpoint has left in the scratch folder. Not to be called while one is written."""
        for leftover in (self._scratch / _CHECKPOINTS).glob("*"):
            shutil.rmtree(leftover, ignore_errors=True)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Ends the server and removes its scratch folder; kills it after `timeout_s`. May be called again."""
        self._end_process(timeout_s)
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, port: int | None, restore_from: str | PathLike[str] | None) -> None:
        if restore_from is not None:
            checkpoint.read(restore_from, KIND, self.config, self.spec)
        if port is not None:
            _check_free(port)
        task = {
            "config": asdict(self.config),
            "spec": asdict(self.spec),
            "port": port,
            "root": str(self._scratch / _CHECKPOINTS),
            "restore_from": None if restore_from is None else str(Path(restore_from).absolute()),
            "parent": os.getpid(),
            "loopback": self._host in _LOOPBACK,
        }
        # The child finds the package where this process found it.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
        with (self._scratch / "log").open("w") as log:
            # In a session of its own Ctrl-C does not reach the server: the trainer still has to save the replay.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mallocmuzero.replay.reverb.server_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # A child that has ended already shows by its missing answer.
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        answer = _read_line(self._process.stdout, _START_TIMEOUT_S)
        if not answer:
            words = self.log.strip().splitlines()[-3:]
            raise UserError(f"the replay server did not start (exit code {self._process.poll()}): {' | '.join(words)}")
        ready = json.loads(answer)
        if "error" in ready:
            raise UserError(f"the replay server did not start: {ready['error']}")
        if ready["exposed"]:
            _log.warning("replay: port %d is open to the network: this system cannot confine it", ready["port"])
        self.address = f"{self._host}:{ready['port']}"

    def _end_process(self, timeout_s: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # It may have ended on its own.
            process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _check_free(port: int) -> None:
    """Raises UserError if a process listens on `port`; gRPC would silently share it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise UserError(f"replay server: port {port} cannot be used ({error.strerror}); choose another") from error


def _read_line(stream: IO[str], timeout_s: float) -> str:
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.append(stream.readline()), daemon=True)
    reader.start()
    reader.join(timeout_s)
    return lines[0] if lines else ""
