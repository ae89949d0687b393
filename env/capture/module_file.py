"""A lowered module in a file, as other programs write it: JAX's dumps, `jax.export`, StableHLO of any kind."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from . import worker
from .compilation_files import work_folder
from .standalone import run_alone
from .worker import ARTIFACT, EXPORTED, MLIR_BYTECODE, MLIR_TEXT

# A word without a colon that ends in one of these is meant as a file, even if there is none.
SUFFIXES = (".mlir", ".mlirbc", ".bc", ".stablehlo")
_BYTECODE_MAGIC = b"ML\xefR"
# MLIR names the producer of bytecode after the magic number and the version.
_PRODUCER = b"StableHLO_v"
_HEAD = 1 << 16
# MLIR's text begins with comments, and then with aliases, which can be many, resources, or an operation: a module, or
# what MLIR itself puts into one. The generic form has the operation's name in quotes.
_TEXT = re.compile(rb'\s*(?://[^\n]*\n\s*)*(?:[#!][\w$.-]+\s*=|\{-#|"?(?:(?:builtin\.)?module|func\.func|sdy\.mesh)\b)')
# Messages name at most this many modules of a folder.
_SHOWN = 5
_HOW = (
    "give a lowered module in StableHLO, such as JAX leaves in the folder JAX_DUMP_IR_TO, or "
    "`lowered.as_text(debug_info=True)`"
)
# What to say where options would name instructions of a module that has no names.
UNNAMED = (
    "names of operations are missing, so that options cannot name its instructions as your program has them; give a "
    "module that has them, such as JAX leaves in the folder JAX_DUMP_IR_TO, or `lowered.as_text(debug_info=True)`"
)


@dataclass(frozen=True)
class LoweredModule:
    """A module as the capture compiles it.

    Attributes:
      reference: `FILE:NAME`, in place of `PKG.MODULE:FUNCTION`.
      data: the module, a portable artifact of StableHLO.
      partitions: number of its partitions, one for each device.
      named: its operations have the names that the compiler names instructions after. If not, options that name
        instructions mean nothing to the program that the module comes from.
      devices: the numbers of its partitions' devices, in their order.
    """

    reference: str
    data: bytes
    partitions: int
    named: bool
    devices: tuple[int, ...]


def is_module_file(given: str | Path) -> bool:
    """Returns whether a file is meant, which need not exist, rather than `PKG.MODULE:FUNCTION`."""
    path = Path(given)
    if isinstance(given, Path) or (":" not in given and path.is_dir()):
        return True
    return path.suffix != ".py" and (path.is_file() or (":" not in path.name and path.suffix in SUFFIXES))


def form_of(path: Path) -> str:
    """Returns how a file holds a module, judged by its first bytes, before an interpreter is made.

    Raises:
      UserError: there is no such file, or it holds none; for a folder, the message names its modules.
    """
    if path.is_dir():
        modules = sorted(_modules_in(path), key=lambda file: (-file.stat().st_size, file.name))
        if not modules:
            raise UserError(
                f"{path}: is a folder without modules; give PKG.MODULE:FUNCTION, or {_HOW.removeprefix('give ')}"
            )
        others = f" and {len(modules) - _SHOWN} smaller ones" if len(modules) > _SHOWN else ""
        raise UserError(
            f"{path}: is a folder; give one of its modules: {', '.join(map(str, modules[:_SHOWN]))}{others}"
        )
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); {_HOW}") from error
    form = _form(head)
    if form is None:
        what = "an HLO module, which has lost what the compiler goes by" if head[:10] == b"HloModule " else "none"
        raise UserError(f"{path}: holds {what}; {_HOW}")
    return form


def _form(head: bytes) -> str | None:
    """Returns how a file that begins with `head` holds a module; None if it holds none."""
    if head.startswith(_BYTECODE_MAGIC):
        return ARTIFACT if _PRODUCER in head[:64] else MLIR_BYTECODE
    if _TEXT.match(head):
        return MLIR_TEXT
    # A flatbuffer begins with the offset of its root, which is small.
    return EXPORTED if len(head) > 64 and head[2:4] == b"\0\0" else None


def _modules_in(folder: Path) -> list[Path]:
    """Returns the files of a folder that hold a lowered module."""
    found = []
    for path in folder.iterdir():
        if path.suffix in SUFFIXES and path.is_file():
            with path.open("rb") as file:
                if _form(file.read(_HEAD)) is not None:
                    found.append(path)
    return found


def read_module_file(path: Path, python: Path, devices: Sequence[int] | str = (), topology: str = "") -> LoweredModule:
    """Reads a module with an interpreter that has jax.

    Args:
      path: the file.
      python: the interpreter.
      devices: numbers of the devices of its partitions, in their order, which a module does not say; empty for the
        topology's own order, `MAKE_MESH` for that of `jax.make_mesh`.
      topology: the topology, which `MAKE_MESH` needs.

    Raises:
      UserError: there is no such file, or it holds no module that this jax reads and one program of a TPU runs.
    """
    form = form_of(path)
    order = devices if isinstance(devices, str) else ",".join(map(str, devices))
    with work_folder(None) as folder:
        made = folder / worker.MODULE_FILE
        found = run_alone(
            "module_reader.py",
            python,
            *(form, str(path.resolve()), str(made), order, topology),
            environment={**os.environ, **worker.compiler_settings()},
            about=str(path),
            task=f"read it as {form}",
        )
        return LoweredModule(
            reference=f"{path.name.replace(':', '_')}:{found['name']}",
            data=made.read_bytes(),
            partitions=found["partitions"],
            named=found["named"],
            devices=tuple(found["devices"]),
        )
