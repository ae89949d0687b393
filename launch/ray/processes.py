"""The operating system's processes behind Ray's actors: Ray asks an actor to end, and one that is stopped or hangs in
native code does not hear it."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cluster import import_ray

# To find out where a worker runs, and to reach another node.
_ASK_S = 1.0
_KILL_S = 10.0
# To end by itself, and between two looks.
_LEAVE_S, _LOOK_S = 3.0, 0.02


@dataclass(frozen=True)
class _Process:
    """A process of a node. Its number alone could be another's by now, its beginning too cannot."""

    node: str
    pid: int
    began: str


class Processes:
    """Where workers run, as they said themselves while they could."""

    def __init__(self) -> None:
        self._ray: Any = import_ray()
        self._answers: dict[Any, Any] = {}

    def watch(self, handle: Any) -> None:
        """Has a new worker say where it runs, before anything else that it is asked."""
        self._answers[handle] = handle.__ray_call__.remote(_here)

    def kill(self, handle: Any) -> None:
        """Ends a worker, whatever it does; its calls under way then fail."""
        process = self._find(handle)
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(handle)
        self._answers.pop(handle, None)
        if process is None:
            return
        if process.node == self._ray.get_runtime_context().get_node_id():
            _kill(process)
            return
        strategy = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(process.node, soft=False)
        call = self._ray.remote(_kill).options(num_cpus=0, scheduling_strategy=strategy).remote(process)
        # A node that does not answer is gone, and its processes with it.
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(call, timeout=_KILL_S)

    def _find(self, handle: Any) -> _Process | None:
        answer = self._answers.get(handle)
        if answer is None:
            return None
        try:
            process: _Process = self._ray.get(answer, timeout=_ASK_S)
        except self._ray.exceptions.RayError:
            return None
        return process


def _here(worker: Any) -> _Process:
    """Runs in the worker."""
    return _Process(import_ray().get_runtime_context().get_node_id(), os.getpid(), _began(os.getpid()))


def _stat(pid: int) -> list[str]:
    """What /proc says of a process, from its state on; empty if there is none, or no /proc."""
    try:
        # The name, in brackets, may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _began(pid: int) -> str:
    """When a process began, in ticks since the machine started; "" if it is not there, or has ended."""
    stat = _stat(pid)
    return stat[19] if stat and stat[0] not in "ZX" else ""


def _kill(process: _Process) -> None:
    """Runs on the process's node."""
    deadline = time.monotonic() + _LEAVE_S
    # Ray has told it to end; one that is stopped has not heard it.
    while process.began and _began(process.pid) == process.began:
        if time.monotonic() > deadline or _stat(process.pid)[:1] == ["T"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            return
        time.sleep(_LOOK_S)
