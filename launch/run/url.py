"""Run directories by URL (`s3://...`, `gs://...`, whatever fsspec opens): a working folder on this machine.

Training writes to the working folder as to any other run directory. After each checkpoint, new files are copied to the
URL, the checkpoint's manifest last, so that a checkpoint with a manifest there is whole. Resuming fetches the run from
the URL; the working folder is used only if the last copy has failed and the folder is ahead.

Object storage has no locks: two machines can train at one URL, and must not.
"""

import hashlib
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from ...env.errors import FormatError, UserError
from ...env.storage.cache import cache_folder
from .checkpoints import MANIFEST, RunCheckpoints
from .json_file import is_inside

T = TypeVar("T")
_log = logging.getLogger(__name__)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")
_CHECKPOINT = re.compile(r"checkpoints/(\d+)/(.*)")
_LOCK = "lock"
# Larger files of a checkpoint are not needed for the status of a run.
_SMALL_BYTES = 2**20


def is_url(run_dir: str | Path) -> bool:
    """Returns whether a run directory was given as a URL."""
    return isinstance(run_dir, str) and _URL.match(run_dir) is not None


class RunUrl:
    """A run at a URL, and its working folder.

    Attributes:
      url: the URL, without a slash at its end.
      folder: the working folder, whether it exists or not.

    Raises:
      UserError: no installed package opens such URLs.
    """

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self.url = url.rstrip("/")
        name = hashlib.sha256(self.url.encode()).hexdigest()[:16]
        self.folder = cache_folder() / "runs" / name if folder is None else folder
        import fsspec

        try:
            self._files, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise UserError(f"{self.url}: cannot be opened ({error}); pip install fsspec's package for it") from error
        self._root = self._root.rstrip("/")
        self._pushing: threading.Thread | None = None
        self._failure: UserError | None = None

    def holds_run(self) -> bool:
        """Returns whether the URL holds a run. Raises UserError if the storage cannot be reached."""
        return self._try("looked at", lambda: bool(self._files.exists(f"{self._root}/{MANIFEST}")))

    def check(self, resume: bool) -> None:
        """Raises UserError if the URL holds a run already, or none to resume, or the storage cannot be reached."""
        if self.holds_run() != resume:
            raise UserError(
                f"{self.url}: holds no run (manifest.json is missing); check the URL"
                if resume
                else f"{self.url}: holds a run already; continue it with --resume, or choose another URL"
            )

    def begin(self, resume: bool) -> str | None:
        """Prepares the working folder; its lock, if any, stays.

        Args:
          resume: fetch the run at the URL.

        Returns:
          A message for the user, or None.

        Raises:
          UserError: the URL holds a run already, or none to resume, or the storage cannot be reached.
        """
        self.check(resume)
        if resume and self._is_ahead():
            return f"going on from {self.folder}, which is ahead of {self.url}: the last copy had failed"
        self._clear()
        if resume:
            self.fetch()
        return None

    def fetch(self, small: bool = False) -> None:
        """Copies the run and its newest whole checkpoint to the folder; `small` leaves out its large files.

        Raises:
          UserError: the storage cannot be reached.
          FormatError: the name of a file leads out of the folder.
        """
        sizes = self._there()
        newest = max(self._whole(sizes), default=None)
        for name, size in sizes.items():
            if not is_inside(name):
                raise FormatError(f"{self.url}: holds {name!r:.60}, which is no name of a file in it; remove that")
            checkpoint = _CHECKPOINT.fullmatch(name)
            if checkpoint is not None and int(checkpoint[1]) != newest:
                continue
            target = self.folder / name
            self._try("written", partial(target.parent.mkdir, parents=True, exist_ok=True))
            if not (small and size > _SMALL_BYTES and (checkpoint is not None or name.startswith("tensorboard/"))):
                self._try("fetched", partial(self._files.get_file, self._at(name), str(target)))

    def push(self, keep: int) -> None:
        """Copies new files to the URL, and keeps the last `keep` checkpoints there.

        Raises:
          UserError: the storage cannot be reached, or is full.
        """
        there = self._there()
        local = {str(path.relative_to(self.folder)): path for path in self.folder.rglob("*") if path.is_file()}
        checkpoints: dict[int, list[str]] = {}
        for name in sorted(local):
            checkpoint = _CHECKPOINT.fullmatch(name)
            if checkpoint is not None:
                checkpoints.setdefault(int(checkpoint[1]), []).append(name)
            elif name not in (_LOCK, MANIFEST) and not name.startswith("checkpoints/"):
                self._put(name, local[name])
        # Only the last checkpoint: those before it were copied when they were the last.
        if checkpoints:
            number = max(checkpoints)
            manifest = RunCheckpoints(self.folder / "checkpoints", keep).path(number) / MANIFEST
            name = str(manifest.relative_to(self.folder))
            if name not in there or self._try("read", lambda: self._files.cat_file(self._at(name))) != _bytes(manifest):
                # Files that an interrupted copy has left may be of another checkpoint with this number.
                self._remove(number, there)
                for part in [*(part for part in checkpoints[number] if part != name), name]:
                    self._put(part, local[part])
        self._put(MANIFEST, local[MANIFEST])
        for number in sorted(self._whole(self._there()))[:-keep]:
            self._remove(number, there)

    def push_soon(self, keep: int) -> None:
        """Pushes on a thread, after the previous push. A failure is logged; the next push copies the rest."""
        self.wait()

        def work() -> None:
            try:
                self.push(keep)
                self._failure = None
            except UserError as error:
                self._failure = error
                _log.warning("%s", error)

        self._pushing = threading.Thread(target=work, name="run-url", daemon=True)
        self._pushing.start()

    def wait(self) -> None:
        """Waits for a `push_soon` that is under way."""
        if self._pushing is not None:
            self._pushing.join()
            self._pushing = None

    def end(self, keep: int) -> None:
        """Pushes the rest and removes the working folder. Raises UserError, and keeps the folder, if that fails."""
        self.wait()
        try:
            self.push(keep)
        except UserError as error:
            raise UserError(
                f"{error}; the run is in {self.folder}, and --resume on this machine goes on there"
            ) from error
        self._clear()

    # Files at the URL.

    def _there(self) -> dict[str, int]:
        """Returns the size in bytes of every file at the URL, by name."""
        found = self._try("listed", lambda: self._files.find(self._root, detail=True))
        return {path.removeprefix(self._root).lstrip("/"): int(info["size"] or 0) for path, info in found.items()}

    def _whole(self, there: dict[str, int]) -> list[int]:
        matches = (_CHECKPOINT.fullmatch(name) for name in there)
        return [int(match[1]) for match in matches if match is not None and match[2] == MANIFEST]

    def _is_ahead(self) -> bool:
        mine = RunCheckpoints(self.folder / "checkpoints", 1).numbers()
        if not mine or max(mine) <= max(self._whole(self._there()), default=0):
            return False
        theirs = self._try("read", lambda: self._files.cat_file(self._at(MANIFEST)))
        return (self.folder / MANIFEST).exists() and bool(_bytes(self.folder / MANIFEST) == theirs)

    # One file.

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _put(self, name: str, path: Path) -> None:
        def put() -> None:
            self._files.makedirs(self._at(name).rsplit("/", 1)[0], exist_ok=True)
            self._files.put_file(str(path), self._at(name))

        self._try("written", put)

    def _remove(self, number: int, there: dict[str, int]) -> None:
        folder = f"checkpoints/{number:06d}/"
        names = [name for name in there if name.startswith(folder)]
        # The manifest first, because a checkpoint with a manifest counts as whole.
        for name in sorted(names, key=lambda name: name != f"{folder}{MANIFEST}"):
            self._try("removed", partial(self._files.rm_file, self._at(name)))

    def _clear(self) -> None:
        if self.folder.exists():
            for path in self.folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.name != _LOCK:
                    path.unlink(missing_ok=True)

    def _try(self, done: str, call: Callable[[], T]) -> T:
        """Returns `call()`. Raises UserError if it fails."""
        try:
            return call()
        # Each storage's package has its own errors.
        except Exception as error:
            reason = str(error).strip().splitlines()[:1] or [""]
            raise UserError(
                f"{self.url}: cannot be {done} ({type(error).__name__}: {reason[0]:.200}); check network and rights"
            ) from error


@contextmanager
def local_run(run_dir: str | Path, small: bool = False) -> Iterator[Path]:
    """Yields a run directory on this machine: the given one, or for a URL a copy that ends with the context.

    Args:
      run_dir: folder or URL.
      small: leave out large files of the checkpoint.

    Raises:
      UserError: there is no run at the URL, or it cannot be reached.
    """
    if not is_url(run_dir):
        yield Path(run_dir)
        return
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-run-") as folder:
        run = RunUrl(str(run_dir), Path(folder))
        if not run.holds_run():
            raise UserError(f"{run_dir}: holds no run (manifest.json is missing); check the URL")
        run.fetch(small)
        yield Path(folder)


def _bytes(path: Path) -> bytes:
    return path.read_bytes()
