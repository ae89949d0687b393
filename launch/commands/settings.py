"""`mallocmuzero settings`: lists the settings of `train`, from the code."""

import argparse
from typing import Any

from ..terminal.json_output import add_json_option, check_json, write_json

_WIDTH, _LEAST_WIDTH = 100, 40


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "settings",
        help="list the settings of a training run",
        description="Lists the settings of a training run with type, default and meaning. Set them with `train --set "
        "NAME=VALUE` or in a file, with `train --config FILE.toml`.",
    )
    parser.add_argument("section", nargs="?", metavar="NAME", help="only those whose names begin so, such as `learner`")
    parser.add_argument(
        "--game",
        default="residency",
        metavar="residency|access",
        help="defaults differ between the games; residency by default",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    import dataclasses
    import shutil
    import textwrap

    from ...actors.self_play.config import DECISIONS
    from ...env.errors import UserError
    from ...env.suggestion import unknown
    from ..config.listing import settings

    check_json(arguments)
    if arguments.game not in DECISIONS:
        raise UserError(unknown("game", arguments.game, DECISIONS))
    every = settings(arguments.game)
    found = [setting for setting in every if setting.name.startswith(arguments.section or "")]
    if not found:
        names = {name for setting in every for name in (setting.name, setting.name.partition(".")[0])}
        raise UserError(unknown("setting", arguments.section, sorted(names), "mallocmuzero settings"))
    if arguments.json is not None:
        write_json([dataclasses.asdict(setting) for setting in found], arguments.json)
    if arguments.json != "-":
        width = max(_LEAST_WIDTH, min(_WIDTH, shutil.get_terminal_size((_WIDTH, 24)).columns))
        for setting in found:
            default = "needed" if setting.required else _text(setting.default)
            print(f"{setting.name} = {default}  ({setting.kind})")
            print(textwrap.fill(setting.meaning, width, initial_indent="    ", subsequent_indent="    "))
    return 0


def _text(value: Any) -> str:
    """Returns a value as `--set` takes it."""
    import json

    return "none" if value is None else json.dumps(value)
