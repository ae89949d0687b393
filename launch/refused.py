"""Says which file the system refused to a command, and why."""

import errno
import os

from .terminal.standard_streams import STDOUT

_RIGHTS = "check its rights, and those of the folders above it"
_ROOM = "make room"
_WAYS_OUT = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EROFS: "choose another place",
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
}


def refusal(error: OSError) -> str | None:
    """Returns what is wrong with a file, and a way out; None if the error names no file, as those of bugs do not.

    A full disk is nobody's bug. Where compiled code was written, its error names no file.
    """
    if not isinstance(error.filename, str | bytes | os.PathLike):
        if _WAYS_OUT.get(error.errno or 0) != _ROOM:
            return None
        return f"a file could not be written ({error.strerror}); {_ROOM}, also where temporary and cached files are"
    way_out = _WAYS_OUT.get(error.errno or 0, "check the path")
    if error.filename == STDOUT:
        way_out = "send it to another place"
    return f"{os.fsdecode(error.filename)}: cannot be used ({error.strerror or error}); {way_out}"
