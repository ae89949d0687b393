"""Where compilations leave their files."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UserError


@contextmanager
def work_folder(keep: Path | None) -> Iterator[Path]:
    """Yields `keep`, a new or empty folder, or without one a temporary folder.

    Raises:
      UserError: it cannot be made, or is not empty.
    """
    if keep is None:
        try:
            temporary = tempfile.TemporaryDirectory(prefix="mallocmuzero-")
        except OSError as error:
            raise UserError(f"no temporary folder can be made ({error.strerror or error}); set TMPDIR") from error
        with temporary as name:
            yield Path(name)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        empty = not any(keep.iterdir())
    except OSError as error:
        raise UserError(f"{keep}: cannot be made ({error.strerror})") from error
    if not empty:
        raise UserError(f"{keep}: is not empty; give a new folder")
    yield keep.resolve()
