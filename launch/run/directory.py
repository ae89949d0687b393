"""The run directory: its files, its manifest, and the lock of the process that trains in it.

manifest.json      identity of the run: format version, code version, seed, programs and their hashes
config.json        the resolved configuration
programs/          NAME.json.gz, the run's own copies of its programs
checkpoints/       000007/: see `checkpoints.py`
best/              NAME.mapping.json.gz, the best verified mapping of each program, and its picture
metrics.jsonl      one JSON object per line: see `session/metrics.py`
tensorboard/       the same figures for TensorBoard
evaluation.json    the last evaluation, as `mallocmuzero evaluate --json` writes it
log.txt            the log
lock               held while a process trains here: its process id, its machine, and the time when it began
"""

import contextlib
import fcntl
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...env.errors import FormatError, UserError
from .code_version import code_version
from .json_file import check_format, is_inside, read_json_file, write_json_file

# `mallocmuzero status` needs neither JAX nor the programs.
if TYPE_CHECKING:
    from ...env.program.program import Program
    from ..config.config import TrainConfig

FORMAT = "mallocmuzero-run"
FORMAT_VERSION = 1


class RunDirectory:
    """One run's folder.

    Attributes:
      path: the folder.
      name: the run's name for the user: the folder, or the URL that it is a working folder of.
    """

    def __init__(self, path: str | Path, name: str | None = None) -> None:
        self.path = Path(path)
        self.name = str(path) if name is None else name
        self._lock: int | None = None

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.json"

    @property
    def manifest_file(self) -> Path:
        """The manifest."""
        return self.path / "manifest.json"

    def program_file(self, name: str) -> Path:
        """The run's own copy of a program."""
        return self.path / "programs" / f"{name}.json.gz"

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def best(self) -> Path:
        """Folder of the best mappings."""
        return self.path / "best"

    @property
    def metrics_file(self) -> Path:
        """The metric file."""
        return self.path / "metrics.jsonl"

    @property
    def tensorboard(self) -> Path:
        """Folder of TensorBoard's event files."""
        return self.path / "tensorboard"

    @property
    def evaluation_file(self) -> Path:
        """The last evaluation."""
        return self.path / "evaluation.json"

    @property
    def log_file(self) -> Path:
        """The log."""
        return self.path / "log.txt"

    def create(self, config: "TrainConfig", programs: "Sequence[Program]") -> None:
        """Makes the folder of a new run, the manifest last.

        Raises:
          UserError: the folder holds a run or other files already, or cannot be written.
        """
        from ...env.program.program_file import write_program

        self.check_new()
        with self._making():
            self.path.mkdir(parents=True, exist_ok=True)
        for program in programs:
            write_program(program, self.program_file(program.name))
        write_json_file(self.config_file, config.to_json())
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "code": code_version(),
            "seed": config.seed,
            "programs": [{"name": program.name, "sha256": program.sha256} for program in programs],
        }
        write_json_file(self.manifest_file, manifest)

    def check_new(self) -> None:
        """Checks that a new run can be made here. Leaves nothing behind.

        Raises:
          UserError: the folder holds a run or other files already, cannot be written, or has a name that the library of
            checkpoints cannot take.
        """
        try:
            os.fspath(self.path.absolute()).encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"{self.path}: is no name in UTF-8, as checkpoints need; choose another, or set PYTHONUTF8=1"
            ) from error
        if self.manifest_file.exists():
            raise UserError(f"{self.path}: holds a run already; continue it with --resume, or choose another folder")
        with self._making():
            others = (
                sorted(path.name for path in self.path.iterdir() if path.name != "lock") if self.path.exists() else []
            )
            # Files that an interrupted `create` has left may be written again; others belong to somebody else.
            if set(others) - {"config.json", "programs"}:
                raise UserError(f"{self.path}: holds {others[0]} but no run; choose an empty folder")
            there = next(folder for folder in (self.path, *self.path.absolute().parents) if folder.exists())
            with tempfile.TemporaryFile(dir=there):
                pass

    @contextlib.contextmanager
    def _making(self) -> Iterator[None]:
        """Turns errors of the file system into a UserError."""
        try:
            yield
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made a run directory ({error.strerror}); choose another folder"
            ) from error

    def open(self) -> tuple["TrainConfig", dict[str, Any]]:
        """Returns configuration and manifest of an existing run.

        Raises:
          UserError: there is none.
          FormatError: it is of another version, or damaged.
        """
        from ..config.config import config_from_json

        manifest = self.manifest()
        config = config_from_json(read_json_file(self.config_file), str(self.config_file))
        return config, manifest

    def manifest(self) -> dict[str, Any]:
        """Returns the manifest of an existing run.

        Raises:
          UserError: there is none.
          FormatError: it is of another version, or damaged.
        """
        if not self.path.is_dir():
            raise UserError(f"{self.path}: there is no such run directory; check the path")
        if not self.manifest_file.exists():
            raise UserError(f"{self.path}: holds no run (manifest.json is missing); check the path")
        manifest = read_json_file(self.manifest_file)
        check_format(manifest, FORMAT, FORMAT_VERSION, self.manifest_file)
        return manifest

    def programs(self, manifest: Mapping[str, Any]) -> "list[Program]":
        """Returns the programs of the run, in the order of its workloads.

        Raises:
          FormatError: a program is missing, damaged, or not the one that the run began with.
        """
        from ...env.program.program_file import read_program

        programs = []
        try:
            entries = [(entry["name"], entry["sha256"]) for entry in manifest["programs"]]
        except (KeyError, TypeError) as error:
            raise FormatError(f"{self.manifest_file}: field `programs` is malformed; start a new run") from error
        for name, sha256 in entries:
            if not is_inside(name) or Path(name).name != name:
                raise FormatError(f"{self.manifest_file}: field `programs` names {name!r:.60}, no file's name")
            program = read_program(self.program_file(name))
            if program.sha256 != sha256:
                raise FormatError(f"{self.program_file(name)}: is not the program of this run; restore the file")
            programs.append(program)
        return programs

    def lock(self) -> None:
        """Keeps other processes from training here until `unlock`, or the end of this process.

        Raises:
          UserError: another process trains here, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written ({error.strerror}); choose another folder") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise UserError(f"{self.path}: another process trains here; stop it, or choose another folder") from error
        self._lock = descriptor
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": round(time.time(), 3)}
        with contextlib.suppress(OSError):  # On a full disk the lock holds all the same.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode() + b"\n", 0)

    def unlock(self) -> None:
        """Lets other processes train here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
