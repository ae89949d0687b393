"""Compilations of one function, made or taken from an archive, each in a folder of its own (pipeline step 1)."""

import hashlib
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import FormatError, UserError
from ..program.compiler_flags import NAMING
from ..program.packed_module import pack_module
from ..storage.atomic import TEMPORARY
from .compilation_files import ANSWER_FILE, cut_down, module_in, name_module, refused_in
from .compiler import ASSIGNMENT, CODE, LOWERING, Compiler
from .worker import ASSIGNED

_FORMAT = 1

_WITHOUT_MODULE = "the file goes without the lowered module, so that `impose` will need the source"


class Archive:
    """A folder of finished compilations, so that an interrupted capture resumes where it stopped.

    Args:
      folder: made if it is not there.
      described: everything besides the request that the result depends on.
    """

    def __init__(self, folder: Path, described: Mapping[str, str]) -> None:
        self._folder, self._described = folder, dict(described)

    def _path(self, name: str, request: Mapping[str, object]) -> Path:
        text = json.dumps([_FORMAT, self._described, dict(request)], sort_keys=True)
        return self._folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.tar.gz"

    def fetch(self, name: str, request: Mapping[str, object], folder: Path) -> bool:
        """Unpacks a finished compilation into `folder`; returns whether there is one."""
        path = self._path(name, request)
        if not path.exists():
            return False
        with tarfile.open(path, "r:gz") as packed:
            packed.extractall(folder, filter="data")
        return True

    def store(self, name: str, request: Mapping[str, object], folder: Path) -> None:
        """Packs a finished compilation, whole or not at all."""
        path = self._path(name, request)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=TEMPORARY) as made:
            whole = Path(made, "packed")
            with tarfile.open(whole, mode="w:gz", compresslevel=3) as packed:
                for entry in sorted(folder.iterdir()):
                    packed.add(entry, entry.name)
            os.replace(whole, path)


class Compilations:
    """Makes the compilations of one function, or takes them from the archive.

    Args:
      folder: gets a folder for every compilation.
      compiler: compiles to the end.
      quick: compiles until memory is assigned. Its process ends with each such compilation; a second process lets
        `compiler` keep the traced function.
      options: compiler options of every compilation.
      archive: finished compilations, or None.
      keep: leave all files.
      progress: takes one line at a time.
    """

    def __init__(
        self,
        folder: Path,
        compiler: Compiler,
        quick: Compiler,
        *,
        options: Mapping[str, str],
        archive: Archive | None,
        keep: bool,
        progress: Callable[[str], None],
    ) -> None:
        self._folder, self._compiler, self._quick = folder, compiler, quick
        self._options, self._archive, self._keep, self._progress = options, archive, keep, progress
        self._longest_s = {CODE: 0.0, ASSIGNMENT: 0.0, LOWERING: 0.0}

    @property
    def longest_s(self) -> dict[str, float]:
        """Wall seconds of the longest compilation, by how far it went; only for those that were made, here or for the
        archive.

        A compilation to the end with dumps also tells the seconds until memory was assigned.
        """
        return {through: seconds for through, seconds in self._longest_s.items() if seconds > 0}

    def fits(self, through: str, until: float) -> bool:
        """Returns whether a compilation as long as the longest so far would end before `until`, a monotonic time."""
        return time.monotonic() + self._longest_s[through] <= until

    def make(
        self, name: str, options: Mapping[str, str], through: str, dumps: bool = False
    ) -> tuple[Path, dict[str, str]]:
        """Makes or fetches one compilation.

        Args:
          name: names the folder, and the file in the archive.
          options: compiler options besides those of every compilation.
          through: `CODE`, `ASSIGNMENT` or `LOWERING`; see `compiler.py`.
          dumps: keep the dumps from before memory space assignment.

        Returns:
          The folder of the compilation, and the versions that made it.

        Raises:
          UserError: it cannot be made.
          FormatError: the compiler did not report its versions.
        """
        folder = self._folder / name
        folder.mkdir()
        request = {"options": {**self._options, **options}, "through": through}
        if not self._fetch(name, request, folder):
            begun, begun_at = time.monotonic(), time.time()
            compiler = self._quick if through == ASSIGNMENT else self._compiler
            cpu_s = compiler.compile(folder, request["options"], through, dump=dumps)  # type: ignore[arg-type]
            wall_s = {through: time.monotonic() - begun}
            if through == CODE:
                wall_s[ASSIGNMENT] = max(0.0, _assigned_at(folder) - begun_at)
            answer = {"cpu_s": cpu_s, "wall_s": wall_s, "versions": compiler.versions()}
            (folder / ANSWER_FILE).write_text(json.dumps(answer), encoding="utf-8")
            if self._keep:
                name_module(folder)
            else:
                cut_down(folder, dumps=dumps, costs=dumps)
            if self._archive is not None:
                self._archive.store(name, request, folder)
            if through != LOWERING:
                self._progress(
                    f"compiled {name} through {through}: {cpu_s:.0f} s of processor time, {wall_s[through]:.0f} s"
                )
        answer = json.loads((folder / ANSWER_FILE).read_text(encoding="utf-8"))
        for reached, seconds in answer.get("wall_s", {}).items():  # archives of earlier versions have none
            self._longest_s[reached] = max(self._longest_s[reached], seconds)
        return folder, dict(answer["versions"])

    def module(self) -> tuple[bytes | None, list[str]]:
        """Returns the lowered module, and the options of `NAMING` that the compiler refuses.

        The module is None, with a line of progress, if it cannot be made or is too large.
        """
        try:
            folder, _ = self.make("module", NAMING, LOWERING)
            module, refused = module_in(folder), refused_in(folder)
            self.drop(folder)
        except (UserError, FormatError) as error:
            self._progress(f"{_WITHOUT_MODULE}: {error}")
            return None, refused_in(self._folder / "module")
        return self.checked(module), refused

    def checked(self, module: bytes) -> bytes | None:
        """Returns a lowered module, or None, with a line of progress, if it is too large for a program file."""
        try:
            pack_module(module)
        except (UserError, FormatError) as error:
            self._progress(f"{_WITHOUT_MODULE}: {error}")
            return None
        return module

    def _fetch(self, name: str, request: Mapping[str, object], folder: Path) -> bool:
        """Takes a compilation from the archive; one that ran to the end also serves as one that stops at assignment."""
        archive = self._archive
        return archive is not None and (
            archive.fetch(name, request, folder)
            or (request["through"] == ASSIGNMENT and archive.fetch(name, {**request, "through": CODE}, folder))
        )

    def drop(self, folder: Path) -> None:
        """Removes the folder of a compilation that has been read, unless files are kept."""
        if not self._keep:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()


def _assigned_at(folder: Path) -> float:
    """Returns the time at which the dump from after memory space assignment was written; 0 if there is none."""
    return max((path.stat().st_mtime for path in folder.glob(f"*{ASSIGNED}")), default=0.0)
