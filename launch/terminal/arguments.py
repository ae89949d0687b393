"""The parsers of the command line: errors of one line, and no argument that is empty."""

import argparse
from pathlib import Path
from typing import NoReturn

from ...env.errors import UserError


def text(given: str) -> str:
    """Returns an argument. Raises ArgumentTypeError if it is empty, as that of a variable that is not set."""
    if not given:
        raise argparse.ArgumentTypeError("is empty; give a name")
    return given


def path(given: str) -> Path:
    """Returns an argument as a path. Raises ArgumentTypeError if it is empty, which `Path` takes for this folder."""
    return Path(text(given))


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors, and those of its commands, are one line like all others."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; see `{self.prog} --help`")


class CommandParser(OneLineParser):
    """The parser of one command, which refuses empty texts and paths."""

    def __init__(self, *arguments: object, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[arg-type]
        self.register("type", None, text)
        self.register("type", Path, path)
