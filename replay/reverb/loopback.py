"""Confines a server that listens on every address, and offers no setting for it, to this machine."""

import os
import socket

_DEVICE = b"lo\0"


def confine_to_loopback(port: int) -> bool:
    """Ties this process's sockets that listen on a TCP port to the loopback device (needs Linux 5.7 or later).

    Returns:
      Whether there are such sockets and all of them are confined.
    """
    found = False
    for name in os.listdir("/proc/self/fd"):
        try:
            # A separate socket object, so that closing it leaves the server's open.
            listener = socket.socket(fileno=os.dup(int(name)))
        except OSError:  # no socket, or closed meanwhile
            continue
        with listener:
            if listener.family not in (socket.AF_INET, socket.AF_INET6) or listener.type != socket.SOCK_STREAM:
                continue
            if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) or listener.getsockname()[1] != port:
                continue
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, _DEVICE)
            except OSError:
                return False
            found = True
    return found
