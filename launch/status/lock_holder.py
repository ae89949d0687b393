"""Finds the process that trains in a run directory, without taking the lock, which could keep a run from starting."""

import json
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LOCKS = Path("/proc/locks")
_MAX_BYTES = 4096


@dataclass(frozen=True)
class Holder:
    """The process that trains in a folder, as far as it is known.

    Attributes:
      running: whether a process trains there; None if that cannot be determined from this machine.
      pid: its process id, or None.
      host: its machine, or None.
      why: the reason why it cannot be determined, or "".
    """

    running: bool | None
    pid: int | None = None
    host: str | None = None
    why: str = ""


def lock_holder(path: Path) -> Holder:
    """Returns the holder of a run's lock file, from the kernel's list (`/proc/locks`) or from the file's content.

    On a file system that several machines share, only the machine that holds the lock lists it.
    """
    try:
        status = path.stat()
        words = _words(path)
    except OSError:
        return Holder(False)
    pid, host = words.get("pid"), words.get("host")
    pid = pid if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0 else None
    host = host if isinstance(host, str) else None
    holders = _holders(status.st_ino)
    for holder in holders or ():
        if _may_hold(holder, status):
            return Holder(True, holder, host if holder == pid else socket.gethostname())
    if host is not None and host != socket.gethostname():
        return Holder(None, pid, host, f"the last process to train here ran on {host}: ask there")
    if holders is not None:
        return Holder(False)
    if pid is None:
        return Holder(None, why=f"{_LOCKS} cannot be read here")
    # Without a list of locks: the process in the file still has it open, or is gone.
    return Holder(_has_open(pid, status), pid, host)


def _words(path: Path) -> dict[str, Any]:
    """Returns what the holder wrote into the lock file; earlier versions wrote nothing."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        data = file.read(_MAX_BYTES)
    with suppress(ValueError, RecursionError):
        words = json.loads(data)
        if isinstance(words, dict):
            return words
    return {}


def _holders(inode: int) -> list[int] | None:
    """Returns the ids of processes that have locked a file of this inode on any device; None if there is no list."""
    try:
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    found = []
    for line in lines:
        # "1: FLOCK ADVISORY WRITE 22155 fe:00:2416751 0 EOF"; "->" marks those that wait.
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            with suppress(ValueError):
                found.append(int(fields[4]))
    return found


def _may_hold(pid: int, status: os.stat_result) -> bool:
    """Returns whether a process with a lock on the same inode has this file open; true if its files cannot be seen."""
    has = _has_open(pid, status)
    return has is None or has


def _has_open(pid: int, status: os.stat_result) -> bool | None:
    """Returns whether a process has a file open; None if its files cannot be seen."""
    folder = Path(f"/proc/{pid}/fd")
    try:
        links = list(folder.iterdir())
    except FileNotFoundError:
        return False
    except OSError:
        return None
    for link in links:
        with suppress(OSError):
            if os.path.samestat(link.stat(), status):
                return True
    return False
