"""Pages whose prose people write and whose tables a program writes, each table between two marks."""

import re
from collections.abc import Iterable
from pathlib import Path


def fill_marks(page: str, tables: Iterable[tuple[str, list[str]]], maker: str, path: Path) -> str:
    """Returns the page with its tables replaced.

    Args:
      page: the text of the page.
      tables: name and lines of each table; it stands between `<!-- NAME: made by MAKER -->` and `<!-- end -->`.
      maker: path of the program that makes the tables.
      path: path of the page, for messages.

    Raises:
      SystemExit: the page has no place for a table.
    """
    for mark, lines in tables:
        found = re.search(rf"<!-- {mark}: made by {re.escape(maker)} -->\n(.*?)<!-- end -->", page, re.S)
        if found is None:
            raise SystemExit(f"{path}: has no place marked {mark!r}")
        page = page[: found.start(1)] + "\n".join([*lines, ""]) + page[found.end(1) :]
    return page


def below_each_other(tables: Iterable[list[str]], instead: str) -> list[str]:
    """Returns the lines of several tables with an empty line between them; those without lines are left out, and
    `instead` stands where none has any."""
    lines: list[str] = []
    for table in filter(None, tables):
        lines += [*([""] if lines else []), *table]
    return lines or [instead]
