"""The lowered module of a program, and what files of earlier captures lack."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..errors import FormatError, UserError
from ..program.program import Program, problem_dict
from ..program.program_file import read_module, read_program, write_program
from ..verifier.verify import verify
from .archive import cut_down
from .assemble import Assembly
from .compiler import ASSIGNMENT, LOWERING, Compiler
from .folder import work_folder
from .worker import MODULE_FILE

# Six digits of the compiler's log.
_ROUNDED = 1e-5


def module_in(folder: Path) -> bytes:
    """Returns the module that a worker left.

    Raises:
      FormatError: it left none.
    """
    try:
        return (folder / MODULE_FILE).read_bytes()
    except OSError as error:
        raise FormatError(f"{folder}: has no file `{MODULE_FILE}` ({error.strerror}); capture again") from error


def lowered(compiler: Compiler, folder: Path) -> bytes:
    """Returns the lowered module of a compiler's function.

    Args:
      compiler: of the function.
      folder: a new one is made in it.

    Raises:
      UserError: the function cannot be traced, or this jax cannot serialise its module.
      FormatError: the worker left no module.
    """
    made = folder / LOWERING
    made.mkdir()
    compiler.compile(made, {}, LOWERING)
    return module_in(made)


def same_problem(one: Program, other: Program) -> bool:
    """Returns whether two programs are the same one.

    Bytes may differ in the seventh digit: the compiler's log rounds them, and gives some in full where its decisions
    make it explain them.
    """
    known, found = problem_dict(one), problem_dict(other)
    for section, key in (("instructions", "bytes"), ("accesses", "bytes")):
        exact, rounded = (np.asarray(document[section].pop(key)) for document in (known, found))
        if exact.shape != rounded.shape or not np.allclose(exact, rounded, rtol=_ROUNDED, atol=0.0):
            return False
    return known == found


def complete(path: Path, function: str, topology: str, python: Path, working_folder: Path | None = None) -> list[str]:
    """Adds what a program file of an earlier capture lacks: the lowered module, and which copies keep their layout.

    Only if the module compiles to the file's program. Nothing is compiled beyond memory space assignment, and nothing
    else of the file changes.

    Args:
      path: the program file.
      function: `PKG.MODULE:FUNCTION` that it was captured from.
      topology: what it was compiled for.
      python: interpreter with jax, libtpu and, unless the file has the module, whatever the function needs.
      working_folder: where the module is looked for first; by default the current folder.

    Returns:
      What was added, in words; nothing if the file has all.

    Raises:
      UserError: the function cannot be traced or compiled, compiles to another program, its module is too large, or a
        mapping in the file replaces what does not keep its layout.
      FormatError: the file is no program file, or the compiler's output is not what capture understands.
    """
    program = read_program(path)
    try:
        module = read_module(path)
    except FormatError:  # Its message says to come here: a damaged module is made anew.
        module = None
    added = [] if module is not None else ["the lowered module"]
    if program.keeps_layout is None:
        added.append("which copies keep their layout")
    if not added:
        return added
    given = program.provenance.get("compiler_options") or {}
    options = {key: str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    with work_folder(None) as folder:
        if module is None:
            with Compiler(python, function, topology, folder, working_folder) as compiler:
                module = lowered(compiler, folder)
        stored = folder / MODULE_FILE
        stored.write_bytes(module)
        made = folder / ASSIGNMENT
        made.mkdir()
        with Compiler(python, str(stored), topology, folder, name=str(path)) as compiler:
            compiler.compile(made, options, ASSIGNMENT, dump=True)
        cut_down(made, dumps=True, costs=True)
        compiled = Assembly(made, program.target, program.name, program.family).program()
    if not same_problem(program, compiled):
        raise UserError(
            f"{path}: {function} compiles to another program (other code, other versions of jax or libtpu); "
            "capture it again"
        )
    program = replace(program, keeps_layout=compiled.keeps_layout)
    for mapping in (program.production, *(variant.mapping for variant in program.variants)):
        if mapping is not None and verify(program, program.target, mapping):
            raise UserError(f"{path}: holds a mapping that replaces what does not keep its layout; capture it again")
    write_program(program, path, module)
    return added
