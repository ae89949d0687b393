"""Files of compiler options: JSON, for `compile(compiler_options=...)`, or a file of flags, for `LIBTPU_INIT_ARGS`.

libtpu reads flags from a file that `LIBTPU_INIT_ARGS=--flagfile=PATH` names, one `--NAME=VALUE` on a line. So a program
whose code gives no options takes them too. The variable itself takes no values with blanks, and is limited in length.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from ..env.errors import UserError
from ..env.program.compiler_flags import CompilerOptions
from ..env.storage.atomic import write_atomically

# The ending of a file of flags; all others are JSON.
FLAGS = ".flags"
_GIVE = "give the file that `tune -o` wrote"


def write_options(options: Mapping[str, str], path: Path) -> None:
    """Writes options. Raises UserError if the file cannot be written."""
    if path.suffix == FLAGS:
        text = "".join(f"--{name}={value}\n" for name, value in options.items())
    else:
        text = json.dumps(dict(options), indent=1) + "\n"
    write_atomically(path, text.encode())


def read_options(path: Path) -> CompilerOptions:
    """Returns the options of a file that `tune` or `impose` wrote.

    Raises:
      UserError: the file cannot be read, is no JSON object of texts, or has a line that is no flag.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is no text ({error.reason}); {_GIVE}") from error
    return _flags(path, text) if path.suffix == FLAGS else _json(path, text)


def _flags(path: Path, text: str) -> CompilerOptions:
    options = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.strip().partition("=")
        if not (equals and name.startswith("--")):
            raise UserError(f"{path}:{number}: is no --NAME=VALUE; {_GIVE}")
        options[name.removeprefix("--")] = value
    return options


def _json(path: Path, text: str) -> CompilerOptions:
    try:
        options = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path}: is no JSON ({error}); {_GIVE}, which ends with {FLAGS} if it is one of flags"
        ) from error
    if not isinstance(options, dict):
        raise UserError(f"{path}: is no JSON object; {_GIVE}")
    for name, value in options.items():
        if not isinstance(value, str):
            raise UserError(f"{path}: `{name}` is {type(value).__name__}, not a text; {_GIVE}")
    return options
