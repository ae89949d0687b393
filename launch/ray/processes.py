"""Ends the processes behind Ray's actors. Ray only asks an actor to end; a stopped or hanging process would stay."""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .cluster import import_ray

# Time-outs for a worker's answer, and for ending a process on another node.
_ASK_S = 1.0
_KILL_S = 10.0
# Seconds that a process has to end by itself, and between two checks.
_LEAVE_S, _LOOK_S = 3.0, 0.02


@dataclass(frozen=True)
class _Process:
    """A process of a node. Process ids are reused; an id together with its start time is unique."""

    node: str
    pid: int
    began: str


class Processes:
    """The processes of workers, which report them when they start."""

    def __init__(self) -> None:
        self._ray: Any = import_ray()
        self._answers: dict[Any, Any] = {}

    def watch(self, handle: Any) -> None:
        """Has a new worker report its process, as its first call."""
        self._answers[handle] = handle.__ray_call__.remote(_here)

    def is_there(self, handle: Any) -> bool:
        """Returns whether a worker has reported its process, or failed; Ray may have no room for it for long."""
        answer = self._answers.get(handle)
        return answer is None or bool(self._ray.wait([answer], timeout=0)[0])

    def kill(self, handle: Any) -> None:
        """Ends a worker, even one that hangs; its calls under way then fail."""
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
        # If the node does not answer, it is gone, and its processes with it.
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
    """Returns the process of the worker that runs this function."""
    return _Process(import_ray().get_runtime_context().get_node_id(), os.getpid(), _began(os.getpid()))


def _stat(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from the state on; none if there is no such process or no /proc."""
    try:
        # The process's name, in brackets before the state, may contain any character.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _began(pid: int) -> str:
    """Returns the start time of a process in ticks since boot; "" if there is none, or it has ended."""
    stat = _stat(pid)
    return stat[19] if stat and stat[0] not in "ZX" else ""


def _kill(process: _Process) -> None:
    """Ends a process of the node on which it runs."""
    deadline = time.monotonic() + _LEAVE_S
    # Ray has asked it to end; a stopped process does not receive that.
    while process.began and _began(process.pid) == process.began:
        if time.monotonic() > deadline or _stat(process.pid)[:1] == ["T"]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
            return
        time.sleep(_LOOK_S)
