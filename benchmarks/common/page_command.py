"""The command of a page: reads the records of a file and writes the page's tables."""

import argparse
from collections.abc import Callable
from pathlib import Path

from mallocmuzero.env.storage.atomic import write_atomically

from .json_lines import Key, Record, read_runs


def write_page(
    description: str | None,
    page: Path,
    results: Path,
    key_of: Callable[[Record], Key],
    render: Callable[[str, list[Record]], str],
) -> list[Record]:
    """Parses the command line, and writes a page anew; returns the records.

    Args:
      description: of the command.
      page: path of the page.
      results: the default of `--results`.
      key_of: returns the key of a record.
      render: returns the text of the page, from its old text and the records.

    Raises:
      SystemExit: a line of the results is no record, or the page has no place for a table.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=results)
    records = [record for _, record in read_runs([parser.parse_args().results], key_of)]
    write_atomically(page, render(page.read_text(encoding="utf-8"), records).encode())
    return records
