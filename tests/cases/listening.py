"""The sockets that a process and its descendants listen on for other machines."""

import ctypes
import ipaddress
import os
import socket

import psutil

_PIDFD_GETFD = 438


def is_loopback(address: str) -> bool:
    """Returns whether an address of IPv4, IPv6, or IPv4 within IPv6, is of the loopback device."""
    parsed = ipaddress.ip_address(address)
    inner = getattr(parsed, "ipv4_mapped", None)
    return parsed.is_loopback if inner is None else inner.is_loopback


def device_of(process: int, descriptor: int) -> str:
    """The device that a socket of another process is tied to, or an empty text.

    Raises:
      PermissionError: this system does not let one process look at another's sockets.
    """
    pidfd = os.pidfd_open(process)
    try:
        copied = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, descriptor, 0)
    finally:
        os.close(pidfd)
    if copied < 0:
        raise PermissionError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    with socket.socket(fileno=copied) as listener:
        name = listener.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16)
    return name.rstrip(b"\0").decode()


def listening(process_id: int) -> dict[str, str]:
    """All sockets that a process and those that stem from it listen on for others: address and port, and by whom.

    Raises:
      PermissionError: this system does not let one process look at another's sockets.
    """
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
