"""`mallocmuzero show`: draws a program or a mapping."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "show",
        help="draw a program or a mapping",
        description="Draws the buffers in fast memory over time; without a mapping, the demand for fast memory.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument("mapping", metavar="MAPPING", nargs="?", help="mapping file, or `production` for XLA's own")
    parser.add_argument("-o", "--output", metavar="FILE.png", required=True, help="the picture, .png or .svg")
    parser.add_argument(
        "--model", default="msa", metavar="MODEL", help="cost model of the time axis: msa (default) or cycles"
    )
    parser.add_argument("--beside", metavar="MAPPING", help="draw this mapping below the first")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env import workloads
    from ...env.errors import UserError
    from ...env.physics.cost import MODELS
    from ...env.storage.destination import check_destination
    from ...env.suggestion import unknown
    from ...env.verifier.verify import check
    from ...env.viewer import picture
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from ..terminal.mappings import read_any_mapping

    if arguments.beside is not None and arguments.mapping is None:
        raise UserError("--beside needs a mapping to stand beside; give PROGRAM MAPPING")
    if Path(arguments.output).suffix.lower() not in picture.SUFFIXES:
        raise UserError(f"-o {arguments.output}: pictures are {' or '.join(picture.SUFFIXES)} files; rename it")
    check_destination(arguments.output, "-o")
    if arguments.model not in MODELS:
        raise UserError(unknown("cost model", arguments.model, MODELS))
    program = workloads.load(arguments.program)
    mapping = None if arguments.mapping is None else read_any_mapping(arguments.mapping, program)
    beside = None if arguments.beside is None else read_any_mapping(arguments.beside, program)
    compile_kernels(needs.PHYSICS)
    for drawn in (mapping, beside):
        if drawn is not None:
            check(program, program.target, drawn)
    picture.draw(program, mapping, arguments.output, beside=beside, model=arguments.model)
    print(f"wrote {arguments.output}")
    return 0
