"""The tables of an evaluation: all figures of a few programs, one row for each of many, and means."""

from collections.abc import Iterable, Sequence

import numpy as np
from rich.table import Table

from ...env.physics.cost import MODELS
from ..terminal.console import show_table
from ..terminal.figures import percent, us_text
from .evaluation_row import Row

BEST_OF_TRAINING = "muzero-best"
BETTER = "muzero-or-production"
PRODUCTION = "production"
# The names of the agent's solvers begin with this.
_AGENT = "muzero-"
# Solvers that the rows of many programs leave out.
_LITTLE = ("all-hbm", PRODUCTION, BETTER)
# Up to this many programs, all figures are shown.
_MOST_WHOLE = 3


def evaluations_table(rows: Iterable[Row]) -> Table:
    """Returns the table of the evaluation. The title has what all rows share, so that the rest fits a terminal."""
    rows = list(rows)
    programs, objectives = ({row.program: None for row in rows}, {row.model: None for row in rows})
    verified = all(row.verified for row in rows)
    models = [model for model in MODELS if any(row.model_us[model] is not None for row in rows)]
    common = [
        next(iter(programs)) if len(programs) == 1 else "evaluation",
        "simulated latency, steady",
        *(f"objective {objective}" for objective in objectives if len(objectives) == 1),
        *(["all verified"] if verified else []),
    ]
    table = Table(title=f"{common[0]}: {'; '.join(common[1:])}")
    varying = [("program", programs), ("solver", None), ("objective", objectives)]
    for heading in [heading for heading, values in varying if values is None or len(values) > 1]:
        table.add_column(heading, no_wrap=True)
    for heading in (*(f"{model} us" for model in models), "of production", "seconds", *["verified"] * (not verified)):
        table.add_column(heading, justify="right", no_wrap=True)
    program = None
    for row in rows:
        if program not in (None, row.program):
            table.add_section()
        program = row.program
        table.add_row(
            *([row.program] if len(programs) > 1 else []),
            _solver(row),
            *([row.model] if len(objectives) > 1 else []),
            *(us_text(row.model_us[model]) for model in models),
            percent(None if row.production_us is None else row.latency_us / row.production_us),
            f"{row.seconds:.2f}",
            *([] if verified else ["yes" if row.verified else "NO"]),
        )
    return table


def programs_table(rows: Iterable[Row]) -> Table:
    """Returns the table of the evaluation of many programs under one objective, one row each: every solver's latency
    in per cent of production, or in microseconds where there is no production mapping.

    It leaves out what means little for a single program: everything in HBM, XLA's mapping, which is 100 %, and the
    better of XLA's and the agent's.
    """
    programs: dict[str, dict[str, Row]] = {}
    for row in rows:
        programs.setdefault(row.program, {})[_solver(row)] = row
    played = [row for by_solver in programs.values() for row in by_solver.values()]
    solvers = {_solver(row): None for row in played if row.solver not in _LITTLE}
    verified = all(row.verified for row in played)
    title = f"{len(programs)} programs, simulated latency, steady; objective {played[0].model}, in % of production"
    table = Table(title=title + ("; all verified" if verified else ""))
    table.add_column("program", no_wrap=True)
    for heading in (*solvers, *["verified"] * (not verified)):
        table.add_column(heading.removeprefix(_AGENT), justify="right", no_wrap=True)
    for program, by_solver in programs.items():
        table.add_row(
            program,
            *(_cell(by_solver.get(solver)) for solver in solvers),
            *([] if verified else ["yes" if all(row.verified for row in by_solver.values()) else "NO"]),
        )
    return table


def _solver(row: Row) -> str:
    return row.solver + (f" ({row.simulations})" if row.simulations else "")


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if row.production_us is None:
        return f"{us_text(row.latency_us)} us"
    return percent(row.latency_us / row.production_us).removesuffix(" %")


def means_table(rows: Iterable[Row]) -> Table | None:
    """Returns the table of each solver's mean and extremes over several programs; None for one, or if none compare.

    It has the solvers that played all programs with a production mapping.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.production_us:
            ratios.setdefault(row.solver, []).append(row.latency_us / row.production_us)
    most = max(map(len, ratios.values()), default=0)
    if most < 2:
        return None
    table = Table(title=f"Over {most} programs, of production")
    table.add_column("solver", no_wrap=True)
    for heading in ("geometric mean", "best", "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for solver, found in ratios.items():
        if len(found) == most:
            mean = float(np.exp(np.mean(np.log(found))))
            table.add_row(solver, *(percent(ratio) for ratio in (mean, min(found), max(found))))
    return table


def show_evaluations(rows: Sequence[Row]) -> None:
    """Prints the table of the evaluation, with one row each for many programs, and below it each solver's means."""
    if len({row.program for row in rows}) <= _MOST_WHOLE:
        show_table(evaluations_table(rows))
    else:
        for objective in {row.model: None for row in rows}:
            show_table(programs_table(row for row in rows if row.model == objective))
    means = means_table(rows)
    if means is not None:
        show_table(means)
