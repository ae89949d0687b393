"""Writes the pages of reference that the code knows best: `python docs/reference.py`.

docs/commands.md holds every command with its arguments, read from the parser. docs/settings.md holds every setting of a
training run with its defaults for both games, read from the dataclasses and their docstrings. A test writes both anew
and compares.
"""

import argparse
import dataclasses
import html
import inspect
import re
import sys
import typing
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from mallocmuzero.actors.self_play.config import ACCESS, RESIDENCY
from mallocmuzero.launch.cli import make_parser
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.listing import Setting, settings

DOCS = Path(__file__).parent
COMMANDS = DOCS / "commands.md"
SETTINGS = DOCS / "settings.md"
_MADE = "<!-- Made by `python docs/reference.py`: edit the parser or the dataclass, not this page. -->"


def commands_page() -> str:
    """Returns the text of docs/commands.md."""
    lines = [
        "# Commands",
        "",
        _MADE,
        "",
        "`mallocmuzero COMMAND --help` prints the same. [Exit statuses](command-line.md#exit-status) are 0 for",
        "success, 1 for a negative answer, 2 for unusable input, 130 after Ctrl-C and 143 after SIGTERM.",
    ]
    for name, parser in _commands(make_parser()):
        lines += ["", f"## {name}", "", _sentences(parser.description or ""), "", "| argument | meaning |", "|---|---|"]
        lines += [f"| {_flags(action)} | {_cell(_help(parser, action))} |" for action in _arguments(parser)]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Returns the text of docs/settings.md."""
    access = {setting.name: setting for setting in settings(ACCESS)}
    lines = [
        "# Settings of a training run",
        "",
        _MADE,
        "",
        "Give one with `--set learner.learning_rate=0.0005`, or many in a file with `--config FILE.toml`. A run stores",
        "all of them in its `config.json`. An unknown name, a wrong type or a value out of range is refused before",
        "training begins, as is a run of the topology `process` that is larger than the memory of the machine.",
        "The defaults depend on the game: `--game residency`, the default, or `--game access`.",
    ]
    of_group: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings(RESIDENCY):
        of_group[setting.name.rpartition(".")[0]].append(setting)
    for prefix, description in _groups(TrainConfig, ""):
        lines += ["", f"## {prefix or 'The run'}", "", description, ""]
        lines += ["| setting | residency | access | meaning |", "|---|---|---|---|"]
        for setting in of_group[prefix]:
            values = f"{_value(setting)} | {_value(access[setting.name])}"
            lines.append(f"| `{setting.name}` | {values} | {_cell(setting.meaning)} |")
    return "\n".join(lines) + "\n"


def _groups(config: type, prefix: str) -> Iterator[tuple[str, str]]:
    """Yields name and first sentence of each group of settings, outer ones first."""
    yield prefix, inspect.getdoc(config).partition("\n\n")[0].replace("\n", " ")  # type: ignore[union-attr]
    for name, hint in typing.get_type_hints(config).items():
        if dataclasses.is_dataclass(hint):
            yield from _groups(hint, f"{prefix}.{name}" if prefix else name)


def _value(setting: Setting) -> str:
    if setting.required:
        return "required"
    if setting.default is None or setting.default in ({}, []):
        return "none"
    return f"`{str(setting.default).lower() if isinstance(setting.default, bool) else setting.default}`"


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    return sorted(actions, key=lambda action: bool(action.option_strings))


def _flags(action: argparse.Action) -> str:
    if not action.option_strings:
        return _code(str(action.metavar or action.dest))
    value = ""
    if action.nargs != 0:
        value = f" {action.metavar or '|'.join(map(str, action.choices or [])) or action.dest.upper()}"
    flags = ", ".join(_code(f"{option}{value}") for option in action.option_strings)
    return flags + ", required" * action.required


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _sentences(text: str) -> str:
    return _linked(text[:1].upper() + text[1:])


def _linked(text: str) -> str:
    """Returns the text with `docs/NAME.md` as a link."""
    return re.sub(r"docs/([\w/-]+)\.md", lambda found: f"[{found[1]}]({found[1]}.md)", text)


def _cell(text: str) -> str:
    """Returns the text for a cell of a table."""
    text = re.sub(r"`([^`]*\|[^`]*)`", lambda found: _code(found[1]), " ".join(text.split()))
    return _linked(text.replace("|", "&#124;"))


def _code(text: str) -> str:
    """Returns the text as code, in which a bar does not end a cell."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


if __name__ == "__main__":
    COMMANDS.write_text(commands_page(), encoding="utf-8")
    SETTINGS.write_text(settings_page(), encoding="utf-8")
    sys.exit(0)
