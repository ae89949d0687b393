"""The tables of an evaluation: what all rows share stands in the title, so that one program's fits 80 columns."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from mallocmuzero.launch.session.evaluation_row import Row
from mallocmuzero.launch.session.evaluation_tables import (
    evaluations_table,
    means_table,
    programs_table,
    show_evaluations,
)
from mallocmuzero.launch.terminal.fitted import Fitted

ROW = Row(
    program="bert-train-b8",
    family="bert",
    solver="muzero-search",
    model="robust",
    latency_us=5_000.0,
    production_us=10_000.0,
    verified=True,
    seconds=0.1,
    simulations=8,
    model_us={"msa": 12_345.67, "cycles": 123_456.78},
    exact=None,
)


def rendered(*rows: Row, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(Fitted(evaluations_table(rows)))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_one_program_fits_a_terminal_of_eighty_columns() -> None:
    text = rendered(ROW, replace(ROW, solver="muzero-or-production", simulations=0))
    assert " ".join(text.split()[:8]) == "bert-train-b8: simulated latency, steady; objective robust; all verified"
    assert "│ muzero-search (8)    │ 12,345.67 │ 123,456.78 │       50.00 % │    0.10 │" in text
    assert text.count("bert-train-b8") == text.count("robust") == 1


def test_what_differs_is_a_column() -> None:
    unpriced = replace(ROW, program="tiny", model="msa", model_us={"msa": 1.0, "cycles": None}, verified=False)
    text = rendered(ROW, unpriced, width=120)
    assert "evaluation: simulated latency, steady" in text
    assert "verified;" not in text
    first, second = (line for line in text.splitlines() if "muzero-search (8)" in line)
    assert [cell.strip() for cell in first.split("│")][1::2] == ["bert-train-b8", "robust", "123,456.78", "0.10", ""]
    assert [cell.strip() for cell in second.split("│")][1:6] == ["tiny", "muzero-search (8)", "msa", "1.00", "-"]
    assert second.rstrip(" │").endswith("NO")


def test_a_model_that_prices_nothing_has_no_column() -> None:
    assert "cycles" not in rendered(replace(ROW, model="msa", model_us={"msa": 1.0, "cycles": None}))


def test_several_programs_have_means_of_the_solvers_that_played_them_all() -> None:
    rows = [
        ROW,
        replace(ROW, program="tiny", latency_us=8_000.0),
        replace(ROW, solver="best-flags", latency_us=9_000.0),
        replace(ROW, program="unknown", production_us=None),
    ]
    means = means_table(rows)
    assert means is not None
    assert means.title == "Over 2 programs, of production"
    assert [list(column.cells) for column in means.columns] == [
        ["muzero-search"],
        ["63.25 %"],
        ["50.00 %"],
        ["80.00 %"],
    ]
    assert means_table(rows[:1]) is None
    assert means_table(rows[3:]) is None


def test_of_many_programs_each_has_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["bert-train-b8", "tiny", "unknown", "late"]
    rows = [replace(ROW, program=name, solver=solver) for name in names for solver in ("production", ROW.solver)]
    rows[5] = replace(rows[5], production_us=None)
    rows.append(replace(ROW, program="late", solver="best-flags", simulations=0, latency_us=9_000.0))
    show_evaluations(rows)
    printed = capsys.readouterr().out
    title = "4 programs, simulated latency, steady; objective robust, in % of production; all verified"
    assert title in " ".join(printed.split())
    cells = {line.split("│")[1].strip(): line for line in printed.splitlines() if line.startswith("│")}
    assert [cell.strip() for cell in cells["late"].split("│")[2:-1]] == ["50.00", "90.00"]
    assert [cell.strip() for cell in cells["unknown"].split("│")[2:-1]] == ["5,000.00 us", "-"]
    headings = [str(column.header) for column in programs_table(rows).columns]
    assert headings == ["program", "search (8)", "best-flags"]
    rows[-1] = replace(rows[-1], verified=False, model="msa")
    show_evaluations(rows)
    printed = capsys.readouterr().out
    assert "objective robust" in printed
    assert "objective msa" in printed
    assert [line.split("│")[-2].strip() for line in printed.splitlines() if line.startswith("│ late")] == [
        "50.00",
        "NO",
    ]
