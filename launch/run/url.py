"""Run directories by URL (`s3://...`, `gs://...`, whatever fsspec opens): a working folder on this machine.

Training writes to the working folder as to any other run directory. After each checkpoint, new files are copied to the
URL, the checkpoint's manifest last, so that a checkpoint with a manifest there is whole, and the run's manifest after
it. Resuming fetches the run from the URL; the working folder is used only if the last copy has failed and the folder is
ahead, or if no copy has succeeded and the folder holds the only one.

Object storage has no locks: two machines can train at one URL, and must not.
"""

import hashlib
import logging
import os
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
from ...env.storage.atomic import TEMPORARY
from ...env.storage.cache import cache_folder
from ...env.storage.destination import make_folder
from .checkpoints import MANIFEST, RunCheckpoints
from .json_file import is_inside

T = TypeVar("T")
_log = logging.getLogger(__name__)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")
_CHECKPOINT = re.compile(r"checkpoints/(\d+)/(.*)")
_LOCK = "lock"
_PROBE = f"{TEMPORARY}probe"
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
        self._push_waits = False
        # Size and time of change of every file when it was last copied.
        self._copied: dict[str, tuple[int, int]] = {}

    def holds_run(self) -> bool:
        """Returns whether the URL holds a run. Raises UserError if the storage cannot be reached."""
        return self._try("looked at", lambda: bool(self._files.exists(f"{self._root}/{MANIFEST}")))

    def check(self, resume: bool) -> None:
        """Checks that a run can begin or be resumed here; `begin` also checks the working folder of a new run.

        Raises:
          UserError: the URL holds a run already, or neither it nor the working folder holds one to resume, or the
            storage cannot be reached or written, or the working folder cannot be written.
        """
        try:
            make_folder(self.folder)
        except OSError as error:
            raise UserError(
                f"{self.folder}: cannot be the working folder of {self.url} ({error.strerror or error}); set "
                "XDG_CACHE_HOME to a folder that can be written"
            ) from error
        self._check_run(resume)
        self._check_writable()

    def _check_run(self, resume: bool) -> None:
        """Checks that there is a run if it is to be resumed, and none otherwise. Errors: see `check`."""
        holds_run = self.holds_run()
        if resume and not holds_run and not self._folder_holds_run:
            raise _no_run(self.url)
        if holds_run and not resume:
            raise UserError(f"{self.url}: holds a run already; continue it with --resume, or choose another URL")

    def begin(self, resume: bool) -> str | None:
        """Prepares the working folder, whose lock, if any, stays. The caller holds that lock.

        Args:
          resume: fetch the run at the URL.

        Returns:
          A message for the user, or None.

        Raises:
          UserError: the URL holds a run already, or none to resume, or the storage cannot be reached, or the working
            folder of a new run holds one that is not at the URL.
        """
        self._check_run(resume)
        if self._folder_holds_run and not resume:
            raise UserError(
                f"{self.folder}: holds a run that is not at {self.url}; continue it with --resume, or "
                f"`rm -r {self.folder}` to begin anew"
            )
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
                self._copied[name] = _stamp(target)

    def push(self, keep: int, checkpoints: RunCheckpoints | None = None) -> None:
        """Copies new files to the URL, and keeps the last `keep` checkpoints there.

        Args:
          keep: how many checkpoints to keep.
          checkpoints: what writes checkpoints meanwhile; it spares the one that is copied. None if nothing does.

        Raises:
          UserError: the storage cannot be reached, or is full.
        """
        checkpoints = checkpoints or RunCheckpoints(self.folder / "checkpoints", keep)
        there = self._there()
        # Only the last checkpoint: those before it were copied when they were the last. It is chosen first, since other
        # files may be ahead of a checkpoint, but not behind it.
        with checkpoints.spared() as number:
            for name, path in self._others():
                self._put_changed(name, path, there)
            if number is not None:
                self._put_checkpoint(checkpoints.path(number), number, there)
        if MANIFEST not in there:
            self._put(MANIFEST, self.folder / MANIFEST)
        if number is not None:
            self._prune(number, keep)

    def push_soon(self, keep: int, checkpoints: RunCheckpoints) -> None:
        """Pushes on a thread, after the previous push; of those that wait, one copies for all.

        A failure is logged; the next push copies the rest. Arguments: see `push`.
        """
        if self._push_waits:
            return
        self._push_waits = True
        previous = self._pushing

        def work() -> None:
            if previous is not None:
                previous.join()
            # Before the push looks for files: what is written from now on needs another one.
            self._push_waits = False
            try:
                self.push(keep, checkpoints)
            except UserError as error:
                _log.warning("%s", error)

        self._pushing = threading.Thread(target=work, name="run-url", daemon=True)
        self._pushing.start()

    def wait(self) -> None:
        """Waits for every `push_soon` so far."""
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

    # Files in the working folder.

    @property
    def _folder_holds_run(self) -> bool:
        return (self.folder / MANIFEST).exists()

    def _others(self) -> Iterator[tuple[str, Path]]:
        """Yields name and path of all files but checkpoints, manifest and lock; training may change them meanwhile."""
        for folder, _, files in os.walk(self.folder):
            for path in (Path(folder, file) for file in files):
                name = str(path.relative_to(self.folder))
                if name.startswith("checkpoints/") or name in (_LOCK, MANIFEST):
                    continue
                if path.is_file() and not path.name.startswith(TEMPORARY):
                    yield name, path

    # Files at the URL.

    def _there(self) -> dict[str, int]:
        """Returns the size in bytes of every file at the URL, by name."""
        found = self._try("listed", lambda: self._files.find(self._root, detail=True))
        return {path.removeprefix(self._root).lstrip("/"): int(info["size"] or 0) for path, info in found.items()}

    def _whole(self, there: dict[str, int]) -> list[int]:
        matches = (_CHECKPOINT.fullmatch(name) for name in there)
        return [int(match[1]) for match in matches if match is not None and match[2] == MANIFEST]

    def _is_ahead(self) -> bool:
        """Returns whether the working folder is ahead of the URL; one of the two holds a run."""
        there = self._there()
        if MANIFEST not in there:
            return True
        mine = RunCheckpoints(self.folder / "checkpoints", 1).numbers()
        if not mine or max(mine) <= max(self._whole(there), default=0):
            return False
        theirs = self._try("read", lambda: self._files.cat_file(self._at(MANIFEST)))
        return self._folder_holds_run and bool(_bytes(self.folder / MANIFEST) == theirs)

    def _put_checkpoint(self, folder: Path, number: int, there: dict[str, int]) -> None:
        """Copies a checkpoint that is not there yet, its manifest last."""
        manifest = folder / MANIFEST
        name = str(manifest.relative_to(self.folder))
        if name in there and self._try("read", lambda: self._files.cat_file(self._at(name))) == _bytes(manifest):
            return
        # Files that an interrupted copy has left may be of another checkpoint with this number.
        self._remove(number, there)
        parts = sorted(path for path in folder.rglob("*") if path.is_file() and path != manifest)
        for path in [*parts, manifest]:
            self._put(str(path.relative_to(self.folder)), path)

    def _prune(self, last: int, keep: int) -> None:
        """Removes checkpoints before the last, except `keep` whole ones; interrupted copies leave halves."""
        there = self._there()
        kept = sorted(number for number in self._whole(there) if number <= last)[-keep:]
        matches = (_CHECKPOINT.fullmatch(name) for name in there)
        for number in sorted({int(match[1]) for match in matches if match is not None}):
            if number < last and number not in kept:
                self._remove(number, there)

    # One file.

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _check_writable(self) -> None:
        """Writes a file at the URL and removes it. Raises UserError if that fails, before any training is lost."""

        def write() -> None:
            self._files.makedirs(self._root, exist_ok=True)
            self._files.pipe_file(self._at(_PROBE), b"")
            self._files.rm_file(self._at(_PROBE))

        self._try("written", write)

    def _put(self, name: str, path: Path) -> None:
        def put() -> None:
            self._files.makedirs(self._at(name).rsplit("/", 1)[0], exist_ok=True)
            self._files.put_file(str(path), self._at(name))

        self._try("written", put)

    def _put_changed(self, name: str, path: Path, there: dict[str, int]) -> None:
        """Copies a file unless it is there as it is; one that vanishes meanwhile is passed over."""
        try:
            stamp = _stamp(path)  # Before the copy: what is appended during it is copied next time.
            if name not in there or self._copied.get(name) != stamp:
                self._put(name, path)
                self._copied[name] = stamp
        except (FileNotFoundError, UserError):
            if path.exists():
                raise

    def _remove(self, number: int, there: dict[str, int]) -> None:
        folder = f"checkpoints/{number:06d}/"
        names = [name for name in there if name.startswith(folder)]
        # The manifest first, because a checkpoint with a manifest counts as whole.
        for name in sorted(names, key=lambda name: name != f"{folder}{MANIFEST}"):
            self._try("removed", partial(self._files.rm_file, self._at(name)))

    def _clear(self) -> None:
        self._copied.clear()
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

    If no copy to the URL has succeeded, it is the working folder, and a line in the log says so.

    Args:
      run_dir: folder or URL.
      small: leave out large files of the checkpoint.

    Raises:
      UserError: there is no run at the URL, or it cannot be reached.
    """
    if not is_url(run_dir):
        yield Path(run_dir)
        return
    run = RunUrl(str(run_dir))
    if run.holds_run():
        with tempfile.TemporaryDirectory(prefix="mallocmuzero-run-") as folder:
            RunUrl(run.url, Path(folder)).fetch(small)
            yield Path(folder)
        return
    if not run._folder_holds_run:
        raise _no_run(run.url)
    _log.warning("%s: holds no run yet; this is the one in %s, which will be copied there", run.url, run.folder)
    yield run.folder


def _no_run(url: str) -> UserError:
    return UserError(f"{url}: holds no run (manifest.json is missing); check the URL")


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
