"""`mallocmuzero measure`: times a function with and without options, on the machine with the TPU."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.compiler_arguments import interpreter
from ..terminal.json_output import add_json_option, check_json, write_json

if TYPE_CHECKING:
    from ...roundtrip.stopwatch import Timed

_ROUNDS = 30


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "measure",
        help="time a function with options on this machine's TPU",
        description="Runs a function on the devices of this machine, with options and without, by turns, and compares "
        "the times and the results. The exit status is 1 if the options make it slower, or change a result: "
        "docs/round-trip.md.",
    )
    parser.add_argument(
        "function",
        metavar="PKG.MODULE:FUNCTION",
        help="the function, as for `tune`. Abstract arguments get values: random numbers, and zeros for integers",
    )
    parser.add_argument("options", type=Path, metavar="OPTIONS", help="the file that `tune -o` or `impose -o` wrote")
    parser.add_argument(
        "--rounds", type=int, default=_ROUNDS, metavar="N", help=f"times that each is timed; {_ROUNDS} by default"
    )
    parser.add_argument(
        "--python",
        type=interpreter,
        metavar="PATH",
        help="interpreter with jax for the TPU and the packages of the model; by default this one",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the status is 1 if the options make the function slower, or change its results."""
    import sys

    from ...env.capture.environment import check_interpreter
    from ...env.capture.module_file import is_module_file
    from ...env.capture.reference import check_reference
    from ...env.errors import UserError
    from ...roundtrip.options_file import read_options
    from ...roundtrip.stopwatch import time_options

    check_json(arguments)
    if arguments.rounds < 2:
        raise UserError(f"--rounds {arguments.rounds}: give 2 or more")
    options = read_options(arguments.options)
    if is_module_file(arguments.function):
        raise UserError(
            f"{arguments.function}: is a module, which has no arguments; give PKG.MODULE:FUNCTION, or run your program "
            "with LIBTPU_INIT_ARGS=--flagfile=OPTIONS"
        )
    check_interpreter(arguments.python)
    if arguments.python is None:
        check_reference(arguments.function)
    python = arguments.python or Path(sys.executable)
    timed = time_options(arguments.function, options, python, arguments.rounds)
    result = _result(timed, arguments)
    if arguments.json != "-":
        _show(result)
    if arguments.json:
        write_json(result, arguments.json)
    return 0 if result["holds"] else 1


def _result(timed: "Timed", arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the JSON object of docs/json.md."""
    low, high = timed.interval
    return {
        "function": arguments.function,
        "device": timed.device,
        "platform": timed.platform,
        "jax": timed.jax,
        "rounds": len(timed.default_s),
        "calls": timed.calls,
        "default_us": [1e6 * seconds for seconds in timed.default_s],
        "options_us": [1e6 * seconds for seconds in timed.options_s],
        "gain_percent": 100.0 * timed.gain,
        "gain_percent_interval": [100.0 * low, 100.0 * high],
        "same": timed.same,
        "holds": timed.same and high >= 0.0,
    }


def _show(result: dict[str, Any]) -> None:
    """Prints the result."""
    from statistics import median

    from rich.table import Table

    from ..terminal.console import show_line, show_table

    table = Table(title=f"{result['function']} on {result['device']}")
    table.add_column("compiled", no_wrap=True)
    table.add_column("us a call", justify="right", no_wrap=True)
    for name, key in (("without the options", "default_us"), ("with the options", "options_us")):
        table.add_row(name, f"{median(result[key]):,.2f}")
    table.add_section()
    table.add_row("gain", f"{result['gain_percent']:+.2f} %")
    show_table(table)
    low, high = result["gain_percent_interval"]
    show_line(
        f"medians of {result['rounds']} rounds of {result['calls']} calls; the gain is {low:+.2f} to {high:+.2f} % "
        "with 95 % confidence"
    )
    show_line(
        "the results are the same, bit for bit" if result["same"] else "the results differ: do not use the options"
    )
    if result["platform"] != "tpu":
        show_line(f"this is a {result['platform']}: nothing of this is known of a TPU")
