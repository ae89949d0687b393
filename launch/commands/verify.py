"""`mallocmuzero verify`: checks that a mapping is legal, and prints its latency."""

import argparse

from ..terminal.json_output import add_json_option, check_json, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "verify",
        help="check a mapping against its program",
        description="Checks that a mapping is legal, and prints its latency. Exit status 1 if it is not.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument("mapping", metavar="MAPPING", help="mapping file, or `production` for XLA's own")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns 0 if the mapping verifies, else 1."""
    from ..api.verify import verify

    check_json(arguments)
    verified = verify(arguments.program, arguments.mapping)
    if arguments.json is not None:
        write_json(verified.as_json(), arguments.json)
    if arguments.json != "-":
        for violation in verified.violations:
            print(violation)
        print(verified.summary())
    return 0 if verified else 1
