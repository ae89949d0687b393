"""Latencies as people read them: microseconds that a cost model counts, and the ratio to XLA's mapping.

The seconds of the objective `robust` are a ratio times production's `msa` latency, not a measured time. They order
mappings in JSON; people see the ratio.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.table import Table

from ...env.physics.cost import MODELS


@dataclass(frozen=True)
class LatencyRow:
    """A mapping in a table of latencies.

    Attributes:
      name: the mapping.
      us: microseconds by cost model; None where a model cannot price it.
      ratio: to the mapping that all are compared with, by the objective; None where there is none.
    """

    name: str
    us: Mapping[str, float | None]
    ratio: float | None


def latency_table(title: str, rows: Sequence[LatencyRow], compared: str = "production") -> Table:
    """Returns the table of some mappings of one program: microseconds by cost model, and the ratio.

    Args:
      title: the program and the objective.
      rows: the mappings.
      compared: the name of the mapping that ratios are relative to.
    """
    models = [model for model in MODELS if any(row.us.get(model) is not None for row in rows)]
    table = Table(title=title)
    table.add_column("mapping", no_wrap=True)
    for heading in (*(f"{model} us" for model in models), f"of {compared}"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *(us_text(row.us.get(model)) for model in models), percent(row.ratio))
    return table


def us_text(us: float | None) -> str:
    """Returns microseconds with two digits; `-` for None."""
    return "-" if us is None else f"{us:,.2f}"


def percent(ratio: float | None) -> str:
    """Returns a ratio in per cent with two digits; `-` for None."""
    return "-" if ratio is None else f"{100 * ratio:.2f} %"


def judged_text(us: float, production_us: float | None, objective: str) -> str:
    """Returns the objective's figures of a mapping: ratio to production, and microseconds where a model counts them.

    Args:
      us: judged microseconds (`objective.Judge.seconds`).
      production_us: judged microseconds of the mapping to compare with, or None.
      objective: the objective.
    """
    ratio = None if not production_us else f"{100 * us / production_us:.2f} % of production"
    if objective in MODELS:
        return f"{us:,.2f} us" + ("" if ratio is None else f", {ratio}")
    return ratio or "no production to compare with"
