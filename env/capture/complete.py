"""Completes the program files of earlier captures: the module, and what captures did not keep when they were made."""

from dataclasses import replace
from pathlib import Path

from ..errors import FormatError, UserError
from ..program.assignment_facts import ASSIGNMENT as ASSIGNMENT_FACTS
from ..program.assignment_facts import lacks_loop_operands
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.program_file import read_module, read_program, write_program
from ..verifier.verify import verify
from .assemble import Assembly
from .compilation_files import cut_down, disk_errors, module_in, work_folder
from .compiler import ASSIGNMENT, LOWERING, Compiler
from .same_problem import same_problem, tells_other_cores
from .worker import MODULE_FILE


def complete(
    path: Path,
    function: str,
    topology: str,
    python: Path,
    working_folder: Path | None = None,
    *,
    with_module: bool = True,
) -> list[str]:
    """Adds what a program file of an earlier capture lacks.

    That is the lowered module, which copies keep their layout, which results always go to HBM, and what the compiler's
    log reports about its assignment (`AssignmentFacts`). The module is compiled until memory is assigned, and must give
    the file's program. Nothing else in the file changes. If there are results that always go to HBM, the program is a
    different problem from before: it has another hash, which its mappings carry too.

    Raises:
      UserError: the function cannot be traced or compiled, compiles to another program, its module is too large, or a
        mapping in the file breaks a rule that it adds.
      FormatError: the file is no program file, or capture does not understand the compiler's output.
    """
    program = read_program(path)
    try:
        module = read_module(path)
    except FormatError:  # The message recommends this function: a damaged module is made anew.
        module = None
    added = [] if module is not None or not with_module else ["the lowered module"]
    if program.keeps_layout is None:
        added.append("which copies keep their layout")
    if program.hbm_accesses is None:
        added.append("which results always go to HBM")
    elif not tells_other_cores(program):
        added.append("what another core or the host reads and writes in HBM")
    if ASSIGNMENT_FACTS not in program.compiler:
        added.append("how the compiler decided")
    elif lacks_loop_operands(program):
        added.append("how loops name what they read")
    if not added:
        return added
    keeps_module = with_module or module is not None
    given = program.provenance.get("compiler_options") or {}
    options = {key: str(value) for key, value in given.items()} if isinstance(given, dict) else {}
    with work_folder(None) as folder, disk_errors(folder):
        if module is None:
            with Compiler(python, function, topology, folder, working_folder=working_folder) as compiler:
                made = folder / LOWERING
                made.mkdir()
                compiler.compile(made, {}, LOWERING)
                module = module_in(made)
        stored = folder / MODULE_FILE
        stored.write_bytes(module)
        made = folder / ASSIGNMENT
        made.mkdir()
        with Compiler(python, str(stored), topology, folder, name=str(path)) as compiler:
            compiler.compile(made, options, ASSIGNMENT, dump=True)
        cut_down(made, dumps=True, costs=True)
        compiled = Assembly(made, program.target, program.name, program.family, like=program).program()
    if not same_problem(program, compiled):
        raise UserError(
            f"{path}: {function} compiles to another program (other code, other versions of jax or libtpu); "
            "capture it again"
        )
    figures = program.compiler | {ASSIGNMENT_FACTS: compiled.compiler[ASSIGNMENT_FACTS]}
    program = replace(program, compiler=figures)
    program = _with_mappings(replace(program, keeps_layout=compiled.keeps_layout, hbm_accesses=compiled.hbm_accesses))
    for mapping in (program.production, *(variant.mapping for variant in program.variants)):
        if mapping is not None and verify(program, program.target, mapping):
            raise UserError(f"{path}: holds a mapping that breaks a rule which was not known; capture it again")
    write_program(program, path, module if keeps_module else None)
    return added


def _with_mappings(program: Program) -> Program:
    """Returns a program whose mappings are of its own problem, which has changed."""

    def own(mapping: Mapping | None) -> Mapping | None:
        return None if mapping is None else replace(mapping, program_sha256=program.sha256)

    variants = tuple(replace(variant, mapping=own(variant.mapping)) for variant in program.variants)
    return replace(program, production=own(program.production), variants=variants)
