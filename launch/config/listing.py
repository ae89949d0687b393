"""All settings of a training run with type, default and meaning, read from the dataclasses and their docstrings."""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from .config import TrainConfig
from .defaults import defaults_of

_WORDS = {bool: "true or false", int: "whole number", float: "number", str: "text"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes:
      name: dotted, as `--set` takes it.
      kind: its type in words.
      default: its default as a plain value; None also for no value.
      required: whether it has no default.
      meaning: its line of the dataclass's docstring.
    """

    name: str
    kind: str
    default: Any
    required: bool
    meaning: str


def settings(game: str) -> list[Setting]:
    """Returns all settings, in the order of the dataclasses, with the defaults of a game: `residency` or `access`."""
    return list(_settings(TrainConfig, defaults_of(game), ""))


def _settings(kind: type, defaults: Mapping[str, Any], prefix: str) -> Iterator[Setting]:
    hints, meanings = typing.get_type_hints(kind), meanings_of(kind)
    for field in dataclasses.fields(kind):
        name, hint = field.name, hints[field.name]
        if not field.init:
            continue
        value = defaults.get(name)
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            yield from _settings(hint, value if isinstance(value, Mapping) else {}, f"{prefix}{name}.")
            continue
        required = name not in defaults
        yield Setting(f"{prefix}{name}", kind_in_words(hint), value, required, meanings.get(name, ""))


def kind_in_words(hint: Any) -> str:
    """Returns a type in words, such as `number or none`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join("none" if option is type(None) else kind_in_words(option) for option in inner)
    if origin is tuple:
        parts = [kind_in_words(part) for part in inner if part is not Ellipsis]
        return f"list of {parts[0]}s" if len(set(parts)) == 1 else f"list: {', '.join(parts)}"
    if origin is dict:
        return f"{kind_in_words(inner[1])} by name"
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return f"section: {', '.join(field.name for field in dataclasses.fields(hint) if field.init)}"
    return _WORDS[hint]


def meanings_of(kind: type) -> dict[str, str]:
    """Returns the lines of the section `Attributes` of a class's docstring by name; several names may share a line."""
    lines = (inspect.getdoc(kind) or "").splitlines()
    try:
        lines = lines[lines.index("Attributes:") + 1 :]
    except ValueError:
        return {}
    found: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if not line.startswith("  "):
            break
        begins = re.match(r"  ((?:\w+, )*\w+): (.*)$", line)
        if begins:
            names = begins[1].split(", ")
            found.update(dict.fromkeys(names, begins[2]))
        elif names:
            found.update({name: f"{found[name]} {line.strip()}" for name in names})
    return found
