"""`mallocmuzero impose`: translates a mapping into compiler options, and has the real compiler confirm them."""

import argparse
from pathlib import Path

from ..terminal.compiler_arguments import add_options_output, add_python_option
from ..terminal.confirmation_report import report, show
from ..terminal.json_output import add_json_option, check_json, write_json
from ..terminal.mode import say

_SECONDS = 30.0
_CANDIDATES = 4


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "impose",
        help="give a mapping back to the compiler",
        description="Translates a mapping into compiler options, compiles the program again with them, for a TPU that "
        "need not be there, and reports how much of the mapping and of its gain came true: docs/round-trip.md.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument("mapping", metavar="MAPPING", help="a mapping file")
    add_options_output(parser)
    add_python_option(parser)
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="FOLDER",
        help="compile the function from its source, whose module is in FOLDER, not the module in the program file",
    )
    parser.add_argument(
        "--candidates",
        type=int,
        default=_CANDIDATES,
        metavar="N",
        help=f"number of sets of options that the compiler is asked about; by default {_CANDIDATES}",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help=f"time for the translation; by default {_SECONDS:.0f}",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the translation; by default 0")
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="processes that translate at once, best no more than cores; 1 by default",
    )
    parser.add_argument(
        "--objective", metavar="O", help="robust, msa or cycles; by default robust if the program has cycles, else msa"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="end every compilation once memory is assigned, after a tenth of the time; cycles are then those of the "
        "program's table",
    )
    parser.add_argument("--time-limit", type=float, metavar="S", help="give up a compilation after S seconds")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="new folder that keeps the compiler's dumps and logs"
    )
    parser.add_argument(
        "--program-output",
        type=Path,
        metavar="FILE",
        help="also write the program, .json.gz, with the cycles that the compilations showed added to its table",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the status is 0 even if the compiler's own mapping is better and is kept."""
    from ...env import workloads
    from ...env.capture.compiler import TIME_LIMIT_S
    from ...env.capture.environment import check_interpreter, find_interpreter
    from ...env.errors import UserError
    from ...env.physics.objective import make_judge, resolve
    from ...env.program.assignment_facts import lacks_loop_operands
    from ...env.program.mapping_file import read_mapping
    from ...env.program.program_file import write_program
    from ...env.storage.destination import check_destination, check_new_folder
    from ...env.verifier.verify import verify
    from ...roundtrip.candidates import translated_candidates
    from ...roundtrip.comparison import flags_us
    from ...roundtrip.confirm import confirm
    from ...roundtrip.options_file import write_options
    from ...roundtrip.real_compiler import real_compiler
    from ...roundtrip.source import check_named, check_source, find_source, program_path
    from ...roundtrip.translate_workers import translate_with_workers
    from ...solvers.solve import SOLVERS
    from ..run.workers import check_workers
    from ..start.solving import DECODES, compile_solvers
    from ..terminal.compiling import Compiling

    check_json(arguments)
    for option, value, least in (
        ("--seed", arguments.seed, 0),
        ("--seconds", arguments.seconds, 0),
        ("--candidates", arguments.candidates, 1),
    ):
        if not value >= least:
            raise UserError(f"{option} {value}: give {least} or more")
    check_workers(arguments.workers)
    if arguments.time_limit is not None and not arguments.time_limit > 0:
        raise UserError(f"--time-limit {arguments.time_limit:g}: give more than 0")
    check_destination(arguments.output, "-o")
    check_destination(arguments.program_output, "--program-output")
    check_new_folder(arguments.keep, "--keep")
    if arguments.folder is not None and not arguments.folder.is_dir():
        raise UserError(f"--folder {arguments.folder}: there is no such folder")
    check_interpreter(arguments.python, arguments.jax)
    program = workloads.load(arguments.program)
    check_named(program)
    resolve(program, arguments.objective)
    mapping = read_mapping(arguments.mapping, program)
    source = find_source(program, program_path(arguments.program), arguments.folder)
    check_source(source, arguments.python)
    if program.production is None:
        raise UserError(f"program {program.name!r} has no production mapping to compare with; capture it again")
    with Compiling() as compiling:
        compile_solvers(compiling, SOLVERS, DECODES)
    violations = verify(program, program.target, mapping)
    if violations:
        raise UserError(f"{arguments.mapping}: is not legal: {violations[0].message}; see `mallocmuzero verify`")
    if lacks_loop_operands(program):
        say(
            "this program was captured before captures kept how loops name what they read: no option will fetch "
            "anything before a loop; capture it again, or complete the file with `mallocmuzero capture --complete`"
        )
    python = find_interpreter(arguments.python, arguments.jax, say)
    judge = make_judge(program, arguments.objective)
    translations = translate_with_workers(
        judge, mapping, arguments.seconds, seed=arguments.seed, workers=arguments.workers
    )
    say(f"{translations[0].decodes:,} sets of options decoded")
    with real_compiler(
        source,
        python,
        keep=arguments.keep,
        time_limit_s=arguments.time_limit or TIME_LIMIT_S,
        progress=say,
    ) as compiler:
        confirmation = confirm(
            program,
            arguments.objective,
            translated_candidates(translations, arguments.candidates),
            compiler,
            quick=arguments.quick,
            progress=say,
        )
        versions = compiler.versions()
    result = report(confirmation, mapping) | {
        "objective": judge.objective,
        "decodes": translations[0].decodes,
        "flags_us": flags_us(confirmation.program, judge.objective),
        "versions": versions,
        "options": {**source.options, **confirmation.options},
    }
    write_options(result["options"], arguments.output)
    if arguments.program_output is not None:
        write_program(confirmation.program, arguments.program_output, source.module)
    if arguments.json != "-":
        show(result)
        print(f"wrote {arguments.output}")
    if arguments.json:
        write_json(result, arguments.json)
    return 0
