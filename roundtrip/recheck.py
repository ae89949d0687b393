"""Asks the compiler what options gain for the present version of a function."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..env.errors import UserError
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from ..solvers.stand_in import why_missing
from .captured import captured
from .options import base_of
from .real_compiler import Compiled, RealCompiler, real_compiler
from .source import find_source

_NAMED = re.compile(r'instruction_name_regex: *"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, eq=False)
class Rechecked:
    """The compiler's verdict on options.

    Attributes:
      program: the function as it compiles now; its cycle table has the cycles that both compilations reported, and is
        None if neither was to the end.
      default: the mapping that the compiler makes without the options.
      compiled: the compilation with the options.
      base: the options that both compilations have, since no search for a mapping sets them.
      versions: of jax and libtpu.
      names: names of instructions in the options.
      unknown: the `names` that match no instruction of the function.
    """

    program: Program
    default: ProgramMapping
    compiled: Compiled
    base: Mapping[str, str]
    versions: dict[str, str]
    names: tuple[str, ...]
    unknown: tuple[str, ...]


def recheck(
    function: str,
    target: str,
    options: Mapping[str, str],
    python: Path,
    *,
    module: bytes | None = None,
    quick: bool = False,
    progress: Callable[[str], None] = print,
) -> Rechecked:
    """Compiles a function without options and with them; options that no search sets are given both times.

    Args:
      function: `PKG.MODULE:FUNCTION`; see `capture`.
      target: a generation, or a topology of one; see `capture`.
      options: compiler options.
      python: interpreter with jax, libtpu and the packages that the function needs.
      module: the function, lowered already; see `capture`.
      quick: end both compilations once memory is assigned, in a tenth of the time; they then report no cycles.
      progress: takes one line at a time.

    Raises:
      UserError: the function cannot be compiled, the compiler refuses or drops an option, or what it chose cannot be
        read back.
      FormatError: capture does not understand the compiler's output.
    """
    base = base_of(options)
    with captured(function, target, progress, python=python, module=module, options=base, quick=quick) as (
        program,
        path,
    ):
        missing = why_missing(program)
        if missing is not None:
            raise UserError(f"{function}: {missing}, so that there is nothing to compare the options with")
        assert program.production is not None
        progress("compiling it with the options")
        source = find_source(program, path)
        if module is not None:  # also one that is too large for the program file
            source = replace(source, module=module)
        with real_compiler(source, python, progress=progress) as compiler:
            compiled = _compiled(compiler, program, options, quick)
            versions = compiler.versions()
    names = named_instructions(options)
    return Rechecked(
        program=compiled.program,
        default=program.production,
        compiled=compiled,
        base=base,
        versions=versions,
        names=names,
        unknown=unknown_names(program, names),
    )


def _compiled(compiler: RealCompiler, program: Program, options: Mapping[str, str], quick: bool) -> Compiled:
    """Compiles with options; an error about one of them also says what to do."""
    try:
        return compiler.compile(program, options, quick=quick)
    except UserError as error:
        if not any(name in str(error) for name in options):
            raise
        raise UserError(
            f"{error}; versions of the compiler take different options: run `mallocmuzero tune` with this one"
        ) from error


def named_instructions(options: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of instructions in options, which are regular expressions: each once, in order."""
    return tuple(dict.fromkeys(name for value in options.values() for name in _NAMED.findall(value)))


def unknown_names(program: Program, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the `names` that match neither an instruction of a program nor what defines one of its buffers.

    Raises:
      UserError: a name is no regular expression.
    """
    known = {*program.instruction_names, *(name.partition("{")[0] for name in program.buffer_names)}
    unknown = []
    for name in names:
        try:
            pattern = re.compile(name)
        except re.error as error:
            raise UserError(
                f"the options name an instruction {name!r}, which is no regular expression ({error})"
            ) from error
        if not any(pattern.fullmatch(other) for other in known):
            unknown.append(name)
    return tuple(unknown)
