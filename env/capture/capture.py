"""Captures a program: runs the whole pipeline on a JAX function and writes the program file."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from ..errors import FormatError, UserError
from ..program.compiler_flags import DEFAULT, REFUSED
from ..program.program import RESULT, Program
from ..program.program_file import read_program, write_program
from ..program.target import find_target
from ..storage.atomic import write_atomically
from ..storage.destination import check_destination, check_new_folder
from .assemble import Assembly
from .compilation_files import disk_errors, work_folder
from .compilations import Archive, Compilations
from .compiler import ASSIGNMENT, CODE, TIME_LIMIT_S, Compiler, TimeLimitError
from .environment import check_interpreter, find_interpreter
from .printed_estimate import TOLERANCE
from .reference import check_reference, split_reference
from .variants import Variants

# The module that the caller lowered.
LOWERED_FILE = "lowered.stablehlo"
_QUICK = "default-until-assignment"
# A field of `provenance`: options that name instructions of this program mean nothing to the program it comes from.
UNNAMED = "unnamed"
_NO_OPTIONS: Mapping[str, str] = {}


def capture(
    function: str,
    target: str,
    output: Path,
    *,
    python: Path | None = None,
    name: str | None = None,
    family: str | None = None,
    options: Mapping[str, str] = _NO_OPTIONS,
    working_folder: Path | None = None,
    keep: Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    passes: int = 0,
    variants_s: float = math.inf,
    grid: bool = True,
    archive: Archive | None = None,
    module: bytes | None = None,
    named: bool = True,
    quick: bool = False,
    with_module: bool = True,
    own_cycles: bool = False,
    loop_ends: bool | None = True,
    like: Program | None = None,
    longest_s: dict[str, float] | None = None,
    progress: Callable[[str], None] = print,
) -> Program:
    """Compiles `function` for a TPU and writes the program with XLA's production mapping to `output`.

    Args:
      function: `PKG.MODULE:FUNCTION`; takes no argument, or the devices of the topology, and returns `(function,
        arguments)`, see `worker.py`.
      target: a generation, or a topology of one; see `find_target`.
      output: the program file.
      python: interpreter with jax, libtpu and the packages that the function needs; None: see `find_interpreter`.
      name: name of the workload; None for the function's, with dashes.
      family: model family of the workload; None for the name.
      options: compiler options of every compilation.
      working_folder: searched first for the function's module; None for the current folder.
      keep: folder that keeps dumps and logs; None for a temporary folder.
      time_limit_s: seconds after which one compilation is given up.
      passes: 0 for the default compilation alone. Otherwise the program also gets the variants of the flag grid, and a
        cycle table from the default and at most this many further compilations.
      variants_s: seconds after which no further compilation should end. If not even the first of them fits, the program
        gets neither variants nor cycles. With `passes`, a default compilation that takes longer is ended, and made
        again as if `quick`.
      grid: with `passes`, read the mappings of the flag grid. Without it, the program gets cycles and no variants, in
        half the compilations.
      archive: finished compilations are taken from it and added to it; None for no archive.
      module: the function, lowered already: a portable artifact of StableHLO. It is compiled instead, and `function`
        only names it. None to trace the function.
      named: operations of `module` have names; see `LoweredModule`. If not, the file records it.
      quick: compile only until memory is assigned, in seconds instead of minutes. The program has all that the
        cost model `msa` needs, and no figure of the code generator, which does not run. Not with `passes`.
      with_module: the file gets the lowered module too, so that `impose` needs no source.
      own_cycles: the program gets the cycles of the default compilation where there is no other, unless it was ended
        early. They price XLA's own mapping, and no other placement.
      loop_ends: the ends of loops are instructions, so that any mapping of the compiler's can be expressed; None: only
        where XLA's own cannot be expressed without them, as in earlier captures.
      like: an earlier capture of the function, whose instructions are taken; None for none.
      longest_s: takes the wall seconds of the longest compilation, by how far it went (`CODE`, `ASSIGNMENT`).
      progress: takes one line at a time.

    Returns:
      The program, as written.

    Raises:
      UserError: an argument cannot be used, the function cannot be compiled, or the disk is full; the message says how
        to mend it.
      FormatError: capture does not understand the compiler's output.
    """
    _, attribute = split_reference(function)
    if quick and passes:
        raise UserError("variants need the code generator, which a quick capture leaves out; ask for one of the two")
    generation, topology = find_target(target)
    check_destination(output)
    check_new_folder(keep)
    check_interpreter(python)
    if python is None and module is None:
        check_reference(function, working_folder)
    name = name or attribute.rpartition(".")[2].strip("<>").replace("_", "-")
    until = time.monotonic() + variants_s
    interpreter = find_interpreter(python, None, progress)

    def new_compiler(folder: Path) -> Compiler:
        compiled = function
        if module is not None:
            stored = folder / LOWERED_FILE
            stored.write_bytes(module)
            compiled = str(stored.resolve())
        return Compiler(
            interpreter,
            compiled,
            topology,
            folder,
            working_folder=working_folder,
            time_limit_s=time_limit_s,
            name=function,
        )

    with (
        work_folder(keep) as folder,
        disk_errors(folder),
        new_compiler(folder) as compiler,
        new_compiler(folder) as assigner,
    ):
        progress(f"compiling {function} for {target} with {interpreter}; large models take minutes")
        compilations = Compilations(
            folder, compiler, assigner, options=options, archive=archive, keep=keep is not None, progress=progress
        )
        try:
            if passes > 0:
                compiler.time_limit_s = min(time_limit_s, variants_s)
            made, versions = compilations.make(DEFAULT, {}, ASSIGNMENT if quick else CODE, dumps=True)
        except TimeLimitError:
            if not passes or variants_s >= time_limit_s:
                raise
            progress(f"the code generator did not end within {variants_s:.0f} s: memory is assigned without it")
            passes = 0
            made, versions = compilations.make(_QUICK, {}, ASSIGNMENT, dumps=True)
        compiler.time_limit_s = time_limit_s
        provenance = {
            "function": function,
            "topology": topology,
            "compiler_options": dict(options),
            **versions,
            **({} if named else {UNNAMED: True}),
        }
        assembly = Assembly(
            made, generation, name, family or name, provenance=provenance, loop_ends=loop_ends, like=like
        )
        compilations.drop(made)
        lowered, refused = compilations.module() if with_module else (None, [])
        if with_module and module is not None:
            lowered = compilations.checked(module)
        with_cycles = passes > 0 and Variants(compilations, assembly, passes, progress, until, grid).run()
        if longest_s is not None:
            longest_s.update(compilations.longest_s)
    program = assembly.program(variants=with_cycles and grid, cycles=with_cycles or own_cycles)
    if refused:
        program = replace(program, compiler={**program.compiler, REFUSED: refused})
        progress(f"this version of the compiler does not take {', '.join(refused)}")
    _write(program, output, lowered, function)
    for line in _summary(program, output):
        progress(line)
    return program


def _write(program: Program, output: Path, lowered: bytes | None, function: str) -> None:
    """Writes the program file, once it is known to read back.

    Raises:
      UserError: it does not read back, or cannot be written.
    """
    with work_folder(None) as folder:
        made = folder / output.name
        write_program(program, made, lowered)
        try:
            read_program(made)
        except FormatError as error:
            trouble = str(error).partition(": ")[2].partition("; ")[0]
            raise UserError(
                f"{function}: capture does not understand this program yet, since {trouble}; please report it with the "
                "files of `mallocmuzero capture --keep FOLDER`"
            ) from error
        write_atomically(output, made.read_bytes())


def _summary(program: Program, output: Path) -> list[str]:
    """Returns lines about what was read back, and what was not."""
    lines = [
        f"of XLA's mapping not expressible: {reason}, {count} times"
        for reason, count in program.compiler["inexpressible"].items()
    ]
    lines += _doubts(program.compiler["estimates_off"])
    silent = program.compiler.get("kernels_without_cost", 0)
    if silent:
        lines.append(
            f"{silent} of {program.compiler['kernels']} kernels tell no cost, so that the compiler counts a cycle for "
            "each: give `pl.pallas_call` a `cost_estimate`"
        )
    if program.hbm_accesses is not None and program.hbm_accesses.any():
        results = program.access_kind == RESULT
        movable = program.fast_allowed[program.access_buffer] & results
        lines.append(f"{(program.hbm_accesses & results).sum():,} of {movable.sum():,} results always go to HBM")
        operands = int((program.hbm_accesses & ~results).sum())
        if operands:
            lines.append(
                f"{operands:,} operands are always read from HBM: by another core of the chip, for the host, or by the "
                "compiler's own copies of slices in loops"
            )
    if program.production is None:
        lines.append("XLA's mapping is left out: it cannot be told without breaking the rules")
    if program.cycles is not None:
        table = program.cycles
        lines.append(
            f"cycles: {table.num_pairs} pairs in {table.num_rows} rows from {table.compilations} compilations, "
            f"{table.ambiguous} ambiguous"
        )
    size = output.stat().st_size / 2**10
    lines.append(
        f"wrote {output}: {program.num_instructions} instructions, {program.num_buffers} buffers, {size:.0f} KiB"
    )
    return lines


def _doubts(off: Mapping[str, float | None]) -> list[str]:
    """Returns a line for every printed estimate that what was read back does not reproduce."""
    lines = []
    right = [name for name, share in off.items() if share is not None and abs(share) <= TOLERANCE]
    for name, share in off.items():
        words = f"the compiler's printed estimate {name.replace('_', ' ')}"
        if share is None:
            lines.append(f"{words} cannot be emulated: its events do not fit the mapping that was read back")
        elif abs(share) > TOLERANCE:
            but = f"; that {right[0].replace('_', ' ')} does" if right else ": take latencies with care"
            lines.append(f"{words} does not come out of what was read back, by {share:+.2%}{but}")
    return lines
