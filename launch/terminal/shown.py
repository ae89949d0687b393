"""The look of results: a table in a terminal, by `rich` and in a notebook."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


class Shown:
    """A result that shows itself: `print(result)`, `rich.print(result)`, or the last line of a notebook's cell.

    A result defines `__repr__`, one line, and `tables` and `lines`, which are shown.
    """

    def tables(self) -> "Iterator[Table]":
        """Yields the tables of the result."""
        raise NotImplementedError

    def lines(self) -> Iterator[str]:
        """Yields the lines below the tables."""
        yield from ()

    def __rich__(self) -> "Group":
        """Returns tables and lines."""
        from rich.console import Group
        from rich.text import Text

        from .fitted import Fitted

        return Group(*(Fitted(table) for table in self.tables()), *(Text(line) for line in self.lines()))

    def __str__(self) -> str:
        """Returns tables and lines as plain text."""
        from rich.console import Console

        console = Console(width=100_000, color_system=None, emoji=False)
        with console.capture() as captured:
            console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _repr_html_(self) -> str:
        """Returns tables and lines as HTML, which notebooks show."""
        return "".join(html_of(table) for table in self.tables()) + "".join(
            f"<p>{escape(line)}</p>" for line in self.lines()
        )


def html_of(table: "Table") -> str:
    """Returns a table as HTML, without styles, so that it looks as the notebook's own tables do."""
    headings = [str(column.header) for column in table.columns]
    rows = zip(*(list(column.cells) for column in table.columns), strict=True)
    parts = ["<table>"]
    if table.title:
        parts.append(f"<caption>{escape(str(table.title))}</caption>")
    if any(headings):
        parts.append("<thead><tr>" + "".join(f"<th>{escape(name)}</th>" for name in headings) + "</tr></thead>")
    parts.append("<tbody>")
    parts += ["<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows]
    return "".join([*parts, "</tbody></table>"])
