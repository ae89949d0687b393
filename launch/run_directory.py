"""The run directory: what lies where, who may write, and whether it can be resumed.

manifest.json      what the run is: format version, code version, seed, programs and their hashes
config.json        the resolved configuration
checkpoints/       step_000001234/: see `checkpoints.py`
best/              NAME.mapping.json.gz, the best verified mapping of each program, and its picture
metrics.jsonl      one JSON object per line, see `metrics.py`
tensorboard/       the same figures
evaluation.json    the last evaluation, as `mallocmuzero evaluate --json` writes it
log.txt            what happened, in words
lock               held while a process trains here
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..env.durable import write_atomically
from ..env.errors import FormatError, UserError
from ..env.files import read_program, write_program
from ..env.program import Program
from .code_version import code_version
from .config import TrainConfig, config_from_json

FORMAT = "mallocmuzero-run"
FORMAT_VERSION = 1


class RunDirectory:
    """One run's folder.

    Attributes:
      path: the folder.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock: int | None = None

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.json"

    @property
    def manifest_file(self) -> Path:
        """What the run is."""
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
        """What happened, in words."""
        return self.path / "log.txt"

    def create(self, config: TrainConfig, programs: Sequence[Program]) -> None:
        """Makes the folder of a new run, the manifest last.

        Raises:
          UserError: there is a run, or something else, in the folder already; or it cannot be written.
        """
        if self.manifest_file.exists():
            raise UserError(f"{self.path}: holds a run already; continue it with --resume, or choose another folder")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(path.name for path in self.path.iterdir() if path.name != "lock")
        except OSError as error:
            raise UserError(
                f"{self.path}: cannot be made a run directory ({error.strerror}); choose another folder"
            ) from error
        # What an interrupted `create` has left may be written again; anything else is not ours.
        if set(others) - {"config.json", "programs"}:
            raise UserError(f"{self.path}: holds {others[0]} but no run; choose an empty folder")
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

    def open(self) -> tuple[TrainConfig, dict[str, Any]]:
        """Returns configuration and manifest of an existing run.

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
        config = config_from_json(read_json_file(self.config_file), str(self.config_file))
        return config, manifest

    def programs(self, manifest: Mapping[str, Any]) -> list[Program]:
        """Returns the programs of the run, in the order of its workloads.

        Raises:
          FormatError: one is missing, damaged, or not the one that the run began with.
        """
        programs = []
        try:
            entries = [(entry["name"], entry["sha256"]) for entry in manifest["programs"]]
        except (KeyError, TypeError) as error:
            raise FormatError(f"{self.manifest_file}: field `programs` is malformed; start a new run") from error
        for name, sha256 in entries:
            program = read_program(self.program_file(name))
            if program.sha256 != sha256:
                raise FormatError(f"{self.program_file(name)}: is not the program of this run; restore the file")
            programs.append(program)
        return programs

    def lock(self) -> None:
        """Keeps others from training here until `unlock`, or the end of the process.

        Raises:
          UserError: another process does already, or the folder cannot be written.
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

    def unlock(self) -> None:
        """Lets others train here."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def write_json_file(path: Path, value: Any) -> None:
    """Writes a JSON file that appears whole or not at all. Raises UserError if it cannot."""
    write_atomically(path, (json.dumps(value, indent=1) + "\n").encode())


def read_json_file(path: Path) -> dict[str, Any]:
    """Returns the object in a JSON file. Raises FormatError if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}); the run directory is not whole") from error
    except ValueError as error:
        raise FormatError(f"{path}: is no JSON ({error}); the run directory is damaged") from error
    if not isinstance(value, dict):
        raise FormatError(f"{path}: is no JSON object; the run directory is damaged")
    return value


def check_format(manifest: Mapping[str, Any], name: str, version: int, path: Path) -> None:
    """Raises FormatError unless a manifest has this format and version."""
    if manifest.get("format") != name:
        raise FormatError(f"{path}: field `format` is {manifest.get('format')!r}, not {name!r}; check the path")
    if manifest.get("version") != version:
        code = manifest.get("code")
        writer = f" {code['version']}" if isinstance(code, dict) and "version" in code else ""
        raise FormatError(
            f"{path}: field `version` is {manifest.get('version')!r}, this program reads {version}; "
            f"use the version{writer} of mallocmuzero that wrote it"
        )
