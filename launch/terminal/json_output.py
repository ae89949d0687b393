"""The option `--json` and its output, whose fields are a contract (docs/json.md)."""

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from ...env.storage.atomic import write_atomically
from ...env.storage.destination import check_destination


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--json FILE`."""
    parser.add_argument(
        "--json", metavar="FILE", help="write the result as JSON too (docs/json.md); - prints it instead"
    )


def check_json(arguments: argparse.Namespace) -> None:
    """Raises UserError if the file of `--json` cannot be written: asked before any work."""
    if arguments.json not in (None, "-"):
        check_destination(arguments.json, "--json")


def write_json(value: Any, path: str) -> None:
    """Writes a result to `path`, or to standard output for `-`. Numbers that are not finite become null.

    Raises:
      UserError: the file cannot be written.
    """
    text = json.dumps(_finite(value), indent=1, allow_nan=False) + "\n"
    if path == "-":
        sys.stdout.write(text)
        return
    write_atomically(Path(path), text.encode())


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
