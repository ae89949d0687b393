"""The table of an evaluation: what all rows share stands in its title, so that one program's fits 80 columns."""

import io
from dataclasses import replace

from rich.console import Console

from mallocmuzero.launch.session.report import Row, evaluations_table, means_table
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
