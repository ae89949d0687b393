"""A table that never cuts a figure short: where it is too wide it becomes records, one block of lines per row.

Names of programs and mappings may hold brackets, which are never read as markup.
"""

from collections.abc import Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

# More than any table.
_WIDE = 100_000


class Fitted:
    """Renders a table unchanged where it fits, else as records. Title, caption and figures are whole either way."""

    def __init__(self, table: Table) -> None:
        self.table = table
        if isinstance(table.title, str):
            table.title = Text(table.title, style="table.title")  # no option says that a title is no markup

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        options = options.update(markup=False)
        needed = Measurement.get(console, options.update(max_width=_WIDE), self.table).maximum
        if needed <= options.max_width:
            yield from console.render(self.table, options)
        else:
            yield from records(self.table)


def qualified(headings: list[str]) -> list[str]:
    """Returns the headings; a repeated one is prefixed with the nearest unique heading before it."""
    names, group = [], ""
    for heading in headings:
        once = headings.count(heading) == 1
        group = heading if once else group
        names.append(heading if once or not group else f"{group} {heading}")
    return names


def records(table: Table) -> Iterator[Text]:
    """Yields the rows of a table as blocks: the first cell on a line, under it a line for each other known one."""
    if table.title:
        yield Text(str(table.title), style="italic")
    columns = [list(column.cells) for column in table.columns]
    headings = qualified([str(column.header) for column in table.columns])
    named = any(headings)
    width = max(map(cell_len, headings), default=0)
    for first, *others in zip(*columns, strict=True):
        if not named:
            yield Text(": ".join(str(cell) for cell in (first, *others)))
            continue
        yield Text(str(first), style="bold")
        for heading, cell in zip(headings[1:], others, strict=True):
            if str(cell) != "-":
                yield Text(f"  {heading.ljust(width)}  {cell}")
    if table.caption:
        yield Text(str(table.caption), style="dim italic")
