"""`mallocmuzero completion`: prints the script by which a shell completes commands, options and names."""

import argparse

from ...env.extras import MissingExtra

SHELLS = ("bash", "zsh")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "completion",
        help="print the completion script of a shell",
        description="Prints a script that completes commands, options, workloads, solvers, targets and files. For "
        'bash: eval "$(mallocmuzero completion bash)", in ~/.bashrc.',
    )
    parser.add_argument("shell", choices=SHELLS, metavar="bash|zsh")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    try:
        import shtab
    except ModuleNotFoundError as error:
        raise MissingExtra("shtab", "completion") from error

    from ..cli import make_parser
    from ..terminal.completing import add_completions

    parser = make_parser()
    add_completions(parser)
    print(shtab.complete(parser, shell=arguments.shell))
    return 0
