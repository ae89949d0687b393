"""`mallocmuzero impose`: translates a mapping into compiler options, and has the real compiler confirm them."""

import argparse
from pathlib import Path

from ..terminal.compiler_arguments import add_options_output, add_python_option
from ..terminal.confirmation_report import report, say, show
from ..terminal.json_output import add_json_option, write_json

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
    """Runs the command; the status is 0 also if the compiler's own mapping is better, which is then kept."""
    import json

    from ...env import workloads
    from ...env.capture.compiler import TIME_LIMIT_S
    from ...env.capture.environment import managed_python
    from ...env.errors import UserError
    from ...env.physics.objective import make_judge
    from ...env.program.mapping_file import read_mapping
    from ...env.program.program_file import write_program
    from ...env.storage.atomic import write_atomically
    from ...env.verifier.verify import verify
    from ...roundtrip.candidates import translated_candidates
    from ...roundtrip.confirm import confirm
    from ...roundtrip.real_compiler import real_compiler
    from ...roundtrip.source import find_source, program_path
    from ...roundtrip.translate import translate
    from ...solvers.solve import SOLVERS
    from ..start.solving import DECODES, compile_solvers
    from ..terminal.compiling import Compiling

    if arguments.seed < 0 or not arguments.seconds >= 0 or arguments.candidates < 1:
        raise UserError("--seed and --seconds are 0 or more, --candidates 1 or more")
    if not arguments.output.parent.is_dir():
        raise UserError(f"{arguments.output}: there is no folder {arguments.output.parent}; make it first")
    program = workloads.load(arguments.program)
    with Compiling() as compiling:
        compile_solvers(compiling, SOLVERS, DECODES)
    mapping = read_mapping(arguments.mapping, program)
    violations = verify(program, program.target, mapping)
    if violations:
        raise UserError(f"{arguments.mapping}: is not legal: {violations[0].message}; see `mallocmuzero verify`")
    if program.production is None:
        raise UserError(f"program {program.name!r} has no production mapping to compare with; capture it again")
    source = find_source(program, program_path(arguments.program), arguments.folder)
    python = arguments.python or managed_python(say)
    judge = make_judge(program, arguments.objective)
    translations = translate(judge, mapping, arguments.seconds, seed=arguments.seed)
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
            translated_candidates(translations)[: arguments.candidates],
            compiler,
            quick=arguments.quick,
            progress=say,
        )
        versions = compiler.versions()
    result = report(confirmation, mapping) | {
        "objective": judge.objective,
        "decodes": translations[0].decodes,
        "versions": versions,
        "options": {**source.options, **confirmation.options},
    }
    write_atomically(arguments.output, (json.dumps(result["options"], indent=1) + "\n").encode())
    if arguments.program_output is not None:
        write_program(confirmation.program, arguments.program_output, source.module)
    if arguments.json != "-":
        show(result)
        print(f"wrote {arguments.output}")
    if arguments.json:
        write_json(result, arguments.json)
    return 0
