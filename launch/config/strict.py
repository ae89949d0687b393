"""Converts plain values to dataclasses and back; refuses unknown keys and wrong types by name."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...env.errors import UserError
from ...env.suggestion import nearest

T = TypeVar("T")
# Larger whole numbers fit neither arrays nor clocks.
_MOST = 2**63
# The source of values that nobody has given.
DEFAULTS = "the configuration"
# Maps the dotted name of a setting, or `section.`, to its source, e.g. a file, for messages.
Source = Callable[[str], str]


def build(kind: type[T], values: Any, source: Source, prefix: str = "") -> T:
    """Returns an instance of the dataclass `kind`; fields that `values` leaves out keep their defaults.

    Args:
      kind: a dataclass; its fields are bool, int, float, str, tuples of these, dicts of these by name, dataclasses, or
        one of these or None.
      values: mapping from field names to plain JSON or TOML values.
      source: maps a setting to its source, for messages.
      prefix: `section.` for nested dataclasses.

    Raises:
      UserError: a key is unknown, a value has the wrong type or is missing, or the dataclass refuses it.
    """
    if not isinstance(values, Mapping):
        raise UserError(
            f"{source(prefix)}: {prefix.rstrip('.') or 'the configuration'} is {values!r}; make it a section"
        )
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            near = nearest(str(name), fields)
            mend = f"did you mean {' or '.join(near)}?" if near else f"choose from {', '.join(fields)}"
            raise UserError(f"{source(prefix + name)}: {prefix}{name} is no setting; {mend}")
    arguments = {name: _convert(hints[name], value, source, f"{prefix}{name}") for name, value in values.items()}
    for name, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and name not in arguments:
            raise UserError(f"{source(prefix)}: {prefix}{name} is missing; set it")
    try:
        return kind(**arguments)
    except UserError as error:
        # The dataclass's message begins with the field's name, but lacks the source of its value.
        named = str(error).partition(" ")[0]
        given = source(prefix + named) if named.partition(".")[0] in fields else DEFAULTS
        raise UserError(f"{source(prefix) if given == DEFAULTS else given}: {error}") from error


def plain(value: Any) -> Any:
    """Returns a dataclass as JSON values from which `build` makes an equal one."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return value


def _convert(hint: Any, value: Any, source: Source, name: str) -> Any:
    """Returns `value` converted to the type `hint`. Raises UserError with its source."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        (hint,) = [option for option in inner if option is not type(None)]
        return _convert(hint, value, source, name)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return build(hint, value, source, f"{name}.")
    if origin is dict:
        if not isinstance(value, Mapping):
            raise _wrong(source, name, value, "a section")
        return {str(key): _convert(inner[1], item, source, f"{name}.{key}") for key, item in value.items()}
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(source, name, value, "a list")
        if len(inner) == 2 and inner[1] is Ellipsis:
            inner = (inner[0],) * len(value)
        if len(inner) != len(value):
            raise _wrong(source, name, value, f"a list of {len(inner)}")
        return tuple(_convert(part, item, source, name) for part, item in zip(inner, value, strict=True))
    if type(value) is int and abs(value) >= _MOST:
        raise _wrong(source, name, f"{str(value)[:20]}...", "smaller than 2**63")
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise _wrong(source, name, value, words[hint])
    return value


def _wrong(source: Source, name: str, value: Any, wanted: str) -> UserError:
    return UserError(f"{source(name)}: {name} is {value!r}; it must be {wanted}")
