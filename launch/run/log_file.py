"""The run's log file: the package's log messages while a run trains."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...env.errors import UserError

_log = logging.getLogger("mallocmuzero")


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Sends the package's log to a file, and to no other handler, within the context.

    Raises:
      UserError: the file cannot be written.
    """
    try:
        handler = _LogFile(path, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); free space or rights") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    previous = _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    # `Progress` shows what the user needs to see; handlers that libraries put on the root logger would repeat it.
    _log.propagate = False
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(previous[0])
        _log.propagate = previous[1]
        with suppress(OSError):
            handler.close()


class _LogFile(logging.FileHandler):
    """A log file that stays silent while the disk is full; it writes again once there is space."""

    def handleError(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.handleError`, which would print a traceback for each line."""
