"""Tables never cut a figure short: wide ones become records; in a pipe there is no limit."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from mallocmuzero.launch.terminal.console import stdout_console
from mallocmuzero.launch.terminal.figures import LatencyRow, judged_text, latency_table
from mallocmuzero.launch.terminal.fitted import Fitted, records


def table() -> Table:
    found = Table(title="A title", caption="A caption")
    for heading in ("program", "instructions", "microseconds"):
        found.add_column(heading, no_wrap=True)
    found.add_row("resnet50-b128", "16348", "-")
    found.add_row("tiny", "9", "443.98")
    return found


def rendered(width: int) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(Fitted(table()))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_table_that_fits_is_a_table() -> None:
    assert "┃ program " in rendered(80)
    assert "16348" in rendered(80)


@pytest.mark.parametrize("width", [20, 80])
def test_brackets_and_colons_in_names_are_printed_as_they_are(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = Table(title="step[b8]")
    found.add_column("program")
    found.add_column("microseconds")
    found.add_row("step[/x][bold]", "1")
    console = Console(file=io.StringIO(), width=width)  # a user's own, which reads markup
    console.print(Fitted(found))
    assert isinstance(console.file, io.StringIO)
    stdout_console().print("step[b8]:smile:", found)
    printed = capsys.readouterr().out
    for text in (console.file.getvalue(), printed):
        assert "step[b8]" in text
        assert "step[/x][bold]" in text
    assert "step[b8]:smile:" in printed


def test_a_heading_that_comes_twice_is_told_apart_in_records() -> None:
    found = Table()
    for heading in ("name", "msa", "bound", "cycles", "bound", "gain"):
        found.add_column(heading)
    found.add_row("tiny", "444", "90", "1110", "85", "10")
    text = " ".join(" ".join(str(line) for line in records(found)).split())
    assert text == "tiny msa 444 msa bound 90 cycles 1110 cycles bound 85 gain 10"


@pytest.mark.parametrize("width", [30, 41])
def test_a_table_that_does_not_fit_becomes_records(width: int) -> None:
    text = rendered(width)
    assert "…" not in text
    words = "A title resnet50-b128 instructions 16348 tiny instructions 9 microseconds 443.98 A caption"
    assert text.split() == words.split()


def test_a_pipe_has_no_limit(capsys: pytest.CaptureFixture[str]) -> None:
    wide = Table()
    for number in range(60):
        wide.add_column(f"column {number}", no_wrap=True)
    wide.add_row(*("1234567890" for _ in range(60)))
    stdout_console().print(Fitted(wide))
    printed = capsys.readouterr().out
    assert printed.count("1234567890") == 60
    assert "…" not in printed


def test_microseconds_stand_only_where_a_cost_model_counts_them() -> None:
    assert judged_text(90.0, 100.0, "msa") == "90.00 us, 90.00 % of production"
    assert judged_text(90.0, 100.0, "robust") == "90.00 % of production"
    found = latency_table("t", [LatencyRow("ours", {"msa": 90.0, "cycles": None}, 0.9)])
    assert [str(column.header) for column in found.columns] == ["mapping", "msa us", "of production"]
