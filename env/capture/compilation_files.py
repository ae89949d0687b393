"""The files of one compilation (pipeline step 1): the folder they lie in, the ones that are read, the rest removed."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FormatError, UserError
from . import worker

# Dumps from before memory space assignment, which `assemble.py` reads for the default compilation alone.
SCHEDULED_MODULE = "*.after_optimizations_before_buffer_assignment.txt"
BUFFER_SIZES = "*.after_optimizations-buffer-assignment.txt"
# From before the pass that colors kernels. Programs without kernels have it too.
UNCOLORED_MODULE = f"*.before_{worker.COLORING}.txt"
# Processor time and versions, written by `compilations.py`.
ANSWER_FILE = "answer.json"

# Source files of the compiler whose lines `log.py` reads, the costs aside.
_READ_FILES = (b"algorithm.cc", b"memory_space_assignment.cc", b"simulator.cc")


@contextmanager
def work_folder(keep: Path | None) -> Iterator[Path]:
    """Yields a folder for compilations: `keep`, new or empty, or a temporary folder if it is None.

    Raises:
      UserError: the folder cannot be made, or is not empty.
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


@contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Makes one line of what the disk refuses within the context, such as a file that it has no space for.

    Args:
      folder: the folder that is written to, for the message where the error names no file.

    Raises:
      UserError: a file cannot be read or written.
    """
    try:
        yield
    except BrokenPipeError:  # Of whoever read the progress: no matter of the disk.
        raise
    except OSError as error:
        raise UserError(
            f"{error.filename or folder}: cannot be used ({error.strerror or error}); free some space, or set TMPDIR"
        ) from error


def only_file(folder: Path, pattern: str) -> Path:
    """Returns the one file of a folder that matches a glob pattern, dumps of parts for the SparseCore aside.

    Raises:
      FormatError: there is no such file, or more than one.
    """
    found = sorted(path for path in folder.glob(pattern) if worker.OTHER_CORES not in path.name)
    if len(found) != 1:
        raise FormatError(
            f"{folder}: has {len(found)} files `{pattern}` where one is expected; "
            "the compilation did not finish, or the function compiles more than one program: capture again"
        )
    return found[0]


def module_in(folder: Path) -> bytes:
    """Returns the lowered module that the worker left in a folder.

    Raises:
      FormatError: the worker left none.
    """
    try:
        return (folder / worker.MODULE_FILE).read_bytes()
    except OSError as error:
        raise FormatError(f"{folder}: has no file `{worker.MODULE_FILE}` ({error.strerror}); capture again") from error


def refused_in(folder: Path) -> list[str]:
    """Returns the names of the options that the worker found refused; none if it has not tried any."""
    path = folder / worker.REFUSED_FILE
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []


def name_module(folder: Path) -> None:
    """Gives the module that is read its name. A compilation that ends once memory is assigned leaves it as a dump."""
    compiled = folder / worker.COMPILED_FILE
    assigned = [path for path in sorted(folder.glob("*" + worker.ASSIGNED)) if worker.OTHER_CORES not in path.name]
    if not compiled.exists() and assigned:
        shutil.copyfile(assigned[0], compiled)


def cut_down(folder: Path, *, dumps: bool, costs: bool) -> None:
    """Removes what nothing reads: other dumps, and repeated lines of the log.

    Args:
      folder: of one compilation.
      dumps: keep the dumps from before memory space assignment.
      costs: keep the costs of instructions in the log.
    """
    name_module(folder)
    compiled, log = folder / worker.COMPILED_FILE, folder / worker.LOG_FILE
    keep = {compiled, log, folder / ANSWER_FILE, folder / worker.MODULE_FILE, folder / worker.REFUSED_FILE}
    if dumps:
        keep |= {path for dump in (SCHEDULED_MODULE, BUFFER_SIZES, UNCOLORED_MODULE) for path in folder.glob(dump)}
    for path in folder.iterdir():
        if path not in keep:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    if log.exists():
        _cut_log(log, costs)


def _cut_log(log: Path, costs: bool) -> None:
    """Keeps the lines that `log.py` reads, each cost once: the compiler logs it again at every query."""
    seen: set[bytes] = set()
    short = log.with_suffix(".short")
    with log.open("rb") as source, short.open("wb") as target:
        for line in source:
            head, found, text = line.partition(b"]")
            if not found:
                continue
            name = head.rpartition(b" ")[2].partition(b":")[0]
            if name.endswith(b"op_cost.cc"):
                if not costs or text in seen:
                    continue
                seen.add(text)
            elif not name.endswith(_READ_FILES):
                continue
            target.write(line)
    os.replace(short, log)
