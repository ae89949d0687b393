"""Pages whose tables a program makes and whose words people write: the tables stand between marks."""

import re
from collections.abc import Iterable
from pathlib import Path


def fill_marks(page: str, tables: Iterable[tuple[str, list[str]]], maker: str, path: Path) -> str:
    """Returns the page with its tables made anew.

    Args:
      page: its text.
      tables: name and lines of each: they come between `<!-- NAME: made by MAKER -->` and `<!-- end -->`.
      maker: the program that makes them.
      path: the page's, for messages.

    Raises:
      SystemExit: the page has no place for a table.
    """
    for mark, lines in tables:
        found = re.search(rf"<!-- {mark}: made by {re.escape(maker)} -->\n(.*?)<!-- end -->", page, re.S)
        if found is None:
            raise SystemExit(f"{path}: has no place marked {mark!r}")
        page = page[: found.start(1)] + "\n".join([*lines, ""]) + page[found.end(1) :]
    return page
