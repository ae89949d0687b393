"""`mallocmuzero capture`: turns a user's own JAX function into a program file."""

import argparse
from pathlib import Path

from ..terminal.compiler_arguments import (
    add_base_options,
    add_devices,
    add_python_option,
    add_target,
    base_options,
    devices_of,
)
from ..terminal.mode import is_quiet, say


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "capture",
        help="make a program file from a JAX function",
        description="Compiles a JAX function for a TPU, which need not be there, and writes the program together with "
        "XLA's own mapping of it.",
    )
    parser.add_argument(
        "function",
        metavar="PKG.MODULE:FUNCTION|MODULE",
        help="a function without arguments that returns (function to compile, its example arguments); one that takes "
        "an argument is given the devices of the target, to make its mesh of. Or the file of a lowered "
        "module: docs/modules.md",
    )
    add_target(parser)
    parser.add_argument("-o", "--output", required=True, type=Path, metavar="FILE", help="the program file, .json.gz")
    add_python_option(parser)
    add_base_options(parser)
    add_devices(parser)
    parser.add_argument("--name", help="name of the workload; by default the function's name")
    parser.add_argument("--family", help="model family of the workload; by default its name")
    parser.add_argument(
        "--variants",
        action="store_true",
        help="also compile under other options, which takes about ten times as long: adds XLA's mappings under a grid "
        "of flags, and the code generator's cycles, which the objectives `cycles` and `robust` need",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="end the compilation once memory is assigned, after a tenth of the time: enough for the objective `msa`",
    )
    parser.add_argument(
        "--complete",
        action="store_true",
        help="only add to FILE, a program of an earlier capture, what it lacks: the lowered module, with which "
        "`impose` needs no source, which copies keep their layout, which results always go to HBM, how the "
        "compiler decided, and how loops name what they read; takes seconds",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="new folder that keeps the compiler's dumps and logs"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ..api.capture import capture

    if arguments.complete:
        return _complete(arguments)
    capture(
        arguments.function,
        target=arguments.target,
        output=arguments.output,
        python=arguments.python,
        jax=arguments.jax,
        compiler_options=base_options(arguments.base),
        devices=devices_of(arguments.devices),
        name=arguments.name,
        family=arguments.family,
        keep=arguments.keep,
        variants=arguments.variants,
        quick=arguments.quick,
        progress=print if not is_quiet() else say,
    )
    return 0


def _complete(arguments: argparse.Namespace) -> int:
    """Completes the program file of an earlier capture."""
    from ...env.capture.complete import complete
    from ...env.capture.environment import check_interpreter, find_interpreter
    from ...env.capture.module_file import is_module_file
    from ...env.errors import UserError
    from ...env.program.program_file import read_program
    from ...env.program.target import find_target

    _, topology = find_target(arguments.target)
    if is_module_file(arguments.function):
        raise UserError(
            f"--complete: {arguments.function} is a file, and only PKG.MODULE:FUNCTION can; capture it again"
        )
    read_program(arguments.output)  # raises before an environment is made
    check_interpreter(arguments.python, arguments.jax)
    python = find_interpreter(arguments.python, arguments.jax, print)
    added = complete(arguments.output, arguments.function, topology, python)
    print(f"added to {arguments.output}: {' and '.join(added)}" if added else f"{arguments.output} lacks nothing")
    return 0
