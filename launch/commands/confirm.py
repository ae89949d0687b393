"""`mallocmuzero confirm`: has the real compiler check what options gain on the current version of a function."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.compiler_arguments import add_devices, add_python_option, add_target, devices_of
from ..terminal.json_output import add_json_option, check_json, write_json
from ..terminal.mode import say

if TYPE_CHECKING:
    from ...roundtrip.recheck import Rechecked

# At most this many unknown names are shown.
_SHOWN = 5


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "confirm",
        help="ask the compiler what options are worth now",
        description="Compiles a function without options and with those that `tune` or `impose` wrote, for a TPU that "
        "need not be there, and compares both mappings under both cost models. Those that `tune --option` was given, "
        "and the size of scoped memory, count for both. Options name instructions: run it when "
        "your function, its shapes, jax or libtpu have changed. The exit status is 1 if a cost model calls the options "
        "worse than none, or if a name in them matches nothing: docs/round-trip.md.",
    )
    parser.add_argument("function", metavar="PKG.MODULE:FUNCTION|MODULE", help="function or module, as for `tune`")
    parser.add_argument("options", type=Path, metavar="OPTIONS", help="the file that `tune -o` or `impose -o` wrote")
    add_target(parser)
    add_python_option(parser)
    add_devices(parser)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="end both compilations once memory is assigned, after a tenth of the time; msa alone then judges",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; the status is 1 if the options are worse than none, or name what is not in the program."""
    from ...env.capture.environment import check_interpreter, find_interpreter
    from ...env.capture.module_file import UNNAMED
    from ...env.errors import UserError
    from ...env.program.target import find_target
    from ...roundtrip.options_file import read_options
    from ...roundtrip.recheck import named_instructions, recheck
    from ..api.function import check_function, read_function

    check_json(arguments)
    find_target(arguments.target)
    options = read_options(arguments.options)
    check_interpreter(arguments.python, arguments.jax)
    devices = devices_of(arguments.devices)
    check_function(arguments.function, None, arguments.python, devices)
    python = find_interpreter(arguments.python, arguments.jax, say)
    read = read_function(arguments.function, None, python, arguments.target, devices, say)
    if not read.named and named_instructions(options):
        raise UserError(f"{arguments.function}: {UNNAMED}")
    found = recheck(
        read.reference, arguments.target, options, python, module=read.module, quick=arguments.quick, progress=say
    )
    result = _result(found, arguments)
    if arguments.json != "-":
        _show(result)
    if arguments.json:
        write_json(result, arguments.json)
    return 0 if result["holds"] else 1


def _result(found: "Rechecked", arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the JSON object of docs/json.md."""
    from ...roundtrip.comparison import gains, in_us
    from ..terminal.confirmation_report import verdict

    default, confirmed = (
        in_us(found.program, mapping, told_only=True) for mapping in (found.default, found.compiled.mapping)
    )
    gain = {model: entry["confirmed_percent"] for model, entry in gains(default, confirmed, confirmed).items()}
    worse = [model for model, percent in gain.items() if percent is not None and percent < 0]
    return {
        "function": arguments.function,
        "target": arguments.target,
        "program": found.program.name,
        "program_sha256": found.program.sha256,
        "default_us": default,
        "confirmed_us": confirmed,
        "gain_percent": gain,
        "options_of_both": found.base,
        "verdict": verdict(default, confirmed),
        "names": len(found.names),
        "unknown_names": list(found.unknown),
        "holds": not worse and not found.unknown,
        "versions": found.versions,
    }


def _show(result: dict[str, Any]) -> None:
    """Prints the result."""
    from rich.table import Table

    from ..terminal.confirmation_report import versions_of
    from ..terminal.console import show_line, show_table

    models = [model for model, latency in result["default_us"].items() if latency is not None]
    table = Table(title=f"{result['program']}: simulated latency, steady")
    table.add_column("mapping", no_wrap=True)
    for model in models:
        table.add_column(f"{model} us", justify="right", no_wrap=True)
    for name, key in (("XLA's default", "default_us"), ("with the options", "confirmed_us")):
        figures = (result[key][model] for model in models)
        table.add_row(name, *("-" if figure is None else f"{figure:,.2f}" for figure in figures))
    table.add_section()
    percents = (result["gain_percent"][model] for model in models)
    table.add_row("gain", *("-" if percent is None else f"{percent:+.2f} %" for percent in percents))
    show_table(table)
    unknown = result["unknown_names"]
    show_line(f"compiled with {versions_of(result)}")
    if result["options_of_both"]:
        both = ", ".join(f"{name}={value}" for name, value in result["options_of_both"].items())
        show_line(f"both compilations have {both}")
    if unknown:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        told = f"{', '.join(unknown[:_SHOWN])}{more}"
        show_line(f"{len(unknown)} of {result['names']} names in the options match nothing: {told}")
    elif result["names"]:
        show_line(f"all {result['names']} names in the options match")
    else:
        show_line("the options name no instruction")
    show_line(result["verdict"])
    show_line("the options hold" if result["holds"] else "the options do not hold: run tune again")
