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
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mallocmuzero.actors.self_play.config import ACCESS, RESIDENCY
from mallocmuzero.launch.cli import make_parser
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.defaults import defaults_of

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
        "`mallocmuzero COMMAND --help` prints the same. Exit status: 0 for success; 1 where `verify` found violations",
        "or `pack` no solution; 2 where an argument or a file cannot be used, with one line that says why; 130 and 143",
        "after Ctrl-C and SIGTERM, with what was found so far written.",
    ]
    for name, parser in _commands(make_parser()):
        lines += ["", f"## {name}", "", _sentences(parser.description or ""), "", "| argument | meaning |", "|---|---|"]
        lines += [f"| {_flags(action)} | {_cell(_help(parser, action))} |" for action in _arguments(parser)]
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Returns the text of docs/settings.md."""
    residency, access = defaults_of(RESIDENCY), defaults_of(ACCESS)
    lines = [
        "# Settings of a training run",
        "",
        _MADE,
        "",
        "Give one with `--set learner.learning_rate=0.0005`, or many in a file with `--config FILE.toml`. A run stores",
        "all of them in its `config.json`. An unknown name, a wrong type or a value out of range is refused before",
        "training begins.",
        "The defaults depend on the game: `--game residency`, the default, or `--game access`.",
    ]
    for prefix, config, description in _groups(TrainConfig, ""):
        lines += ["", f"## {prefix or 'The run'}", "", description, ""]
        lines += ["| setting | residency | access | meaning |", "|---|---|---|---|"]
        meanings = attributes_of(config)
        for field in dataclasses.fields(config):
            if _config_of(config, field.name) is None:
                name = f"{prefix}.{field.name}" if prefix else field.name
                values = [_value(defaults, name) for defaults in (residency, access)]
                lines.append(f"| `{name}` | {values[0]} | {values[1]} | {_cell(meanings.get(field.name, ''))} |")
    return "\n".join(lines) + "\n"


def attributes_of(config: type) -> dict[str, str]:
    """Returns what the `Attributes:` section of a dataclass's docstring says, by attribute."""
    section = inspect.getdoc(config).partition("Attributes:\n")[2]  # type: ignore[union-attr]
    meanings: dict[str, str] = {}
    names: list[str] = []
    for line in section.splitlines():
        began = re.match(r"  (\w+(?:, \w+)*): (.*)", line)
        if began:
            names = began[1].split(", ")
            meanings |= dict.fromkeys(names, began[2])
        elif line.startswith("    "):
            meanings |= {name: f"{meanings[name]} {line.strip()}" for name in names}
        elif line:
            break
    return meanings


def _groups(config: type, prefix: str) -> Iterator[tuple[str, type, str]]:
    """Yields name, dataclass and first sentence of each group of settings, outer ones first."""
    yield prefix, config, inspect.getdoc(config).partition("\n\n")[0].replace("\n", " ")  # type: ignore[union-attr]
    for field in dataclasses.fields(config):
        inner = _config_of(config, field.name)
        if inner is not None:
            yield from _groups(inner, f"{prefix}.{field.name}" if prefix else field.name)


def _config_of(config: type, name: str) -> type | None:
    """Returns the dataclass that a field holds, or None."""
    annotation = typing.get_type_hints(config)[name]
    choices = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    return next((choice for choice in choices if dataclasses.is_dataclass(choice)), None)


def _value(defaults: Mapping[str, Any], name: str) -> str:
    value: Any = defaults
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return "required" if name == "workloads" else ""
        value = value[part]
    if value is None or value == {} or value == []:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`"


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
