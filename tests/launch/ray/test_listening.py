"""The addresses that a training run on one machine listens on: those of the loopback device, and nothing else."""

import ctypes
import importlib.util
import ipaddress
import os
import signal
import socket
import sys
from pathlib import Path

import psutil
import pytest
from launch_cases import counters, started, train_arguments, wait_for_moves

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None or importlib.util.find_spec("reverb") is None or sys.platform != "linux",
    reason="needs mallocmuzero[cluster] on Linux",
)
_PIDFD_GETFD = 438
_WAIT_S = 300.0


def is_loopback(address: str) -> bool:
    """Returns whether an address of IPv4, IPv6, or IPv4 within IPv6, is of the loopback device."""
    parsed = ipaddress.ip_address(address)
    inner = getattr(parsed, "ipv4_mapped", None)
    return parsed.is_loopback if inner is None else inner.is_loopback


def device_of(process: int, descriptor: int) -> str:
    """The device that a socket of another process is tied to, or an empty text."""
    pidfd = os.pidfd_open(process)
    try:
        copied = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, descriptor, 0)
    finally:
        os.close(pidfd)
    if copied < 0:
        pytest.skip(
            f"this system does not let one process look at another's sockets ({os.strerror(ctypes.get_errno())})"
        )
    with socket.socket(fileno=copied) as listener:
        name = listener.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    return name.rstrip(b"\0").decode()


def listening(process_id: int) -> dict[str, str]:
    """All sockets that a process and those that stem from it listen on for others: address and port, and by whom."""
    root = psutil.Process(process_id)
    found = {}
    for process in (root, *root.children(recursive=True)):
        try:
            for one in process.net_connections("inet"):
                if one.status != psutil.CONN_LISTEN or is_loopback(one.laddr.ip):
                    continue
                if device_of(process.pid, one.fd) != "lo":
                    found[f"{one.laddr.ip} port {one.laddr.port}"] = " ".join(process.cmdline())[:100]
        except psutil.NoSuchProcess:
            continue
    return found


def test_this_test_can_fail() -> None:
    with socket.create_server(("", 0)) as server:
        place = f"0.0.0.0 port {server.getsockname()[1]}"
        assert place in listening(os.getpid())
        server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
        assert place not in listening(os.getpid())


@pytest.mark.parametrize("servers", [2])
def test_a_run_on_this_machine_listens_to_this_machine_alone(tmp_path: Path, servers: int) -> None:
    run_dir, log = tmp_path / "run", tmp_path / "log"
    arguments = train_arguments(
        run_dir, "--topology", "ray", "--actors", "2", schedule__evaluate_period=0, replay__servers=servers
    )
    with started(arguments, log) as process:
        wait_for_moves(run_dir, 100, process.pid)
        root = psutil.Process(process.pid)
        replays = [p for p in root.children() if "server_process" in " ".join(p.cmdline())]
        assert len(replays) == servers
        assert all(any(c.status == psutil.CONN_LISTEN for c in replay.net_connections()) for replay in replays)
        assert listening(process.pid) == {}
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_WAIT_S) == 130, log.read_text()
    saved = sorted(path.name for path in run_dir.glob("checkpoints/*/replay/*"))
    assert saved == [f"server_{index}" for index in range(servers)]
    # And on it goes, from both.
    moves = counters(run_dir)["moves"]
    with started(["train", "--run-dir", str(run_dir), "--resume", "--steps", "100000"], log) as process:
        wait_for_moves(run_dir, moves + 50, process.pid)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(_WAIT_S) == 130, log.read_text()
    assert "going on from update" in log.read_text()
