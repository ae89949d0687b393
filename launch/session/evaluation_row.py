"""One row of the evaluation of a run."""

from dataclasses import asdict, dataclass
from typing import Any

from ...actors.evaluate.evaluate import Evaluation


@dataclass(frozen=True)
class Row:
    """One row of the evaluation (docs/json.md)."""

    program: str
    family: str
    solver: str
    model: str
    latency_us: float
    production_us: float | None
    verified: bool
    seconds: float
    simulations: int
    model_us: dict[str, float | None]
    exact: float | None

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of the JSON list."""
        return {**asdict(self), "objective": self.model}


def row_of(evaluation: Evaluation) -> Row:
    """Returns the row of an evaluation."""
    return Row(**{name: getattr(evaluation, name) for name in Row.__dataclass_fields__})
