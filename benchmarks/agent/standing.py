"""Runs of the agent beside references and rivals, for the targets and the tables."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..common.json_lines import Record
from ..solvers.tables import Board
from .records import HELD_OUT, PER_PROGRAM, is_contended

# Seconds of training on a program that the targets allow.
TRAINED_S = 1800.0


@dataclass(frozen=True, eq=False)
class Standing:
    """Runs of the agent and of other solvers.

    Attributes:
      runs: runs of the agent on the programs in `references`, oldest first.
      solvers: runs of other solvers on these programs.
      references: by name of program, see `solvers.references.reference`.
      best_known: ratio to production of the best known mapping, by program.
    """

    runs: list[Record]
    solvers: list[Record]
    references: dict[str, dict[str, Any]]
    best_known: dict[str, float]

    @cached_property
    def contended(self) -> list[str]:
        """Names of the programs whose best known mapping is at least 1 % below tuned production, most gain first."""
        names = [name for name, entry in self.references.items() if is_contended(entry, self.best_known[name])]
        return sorted(names, key=lambda name: self.best_known[name] / self.tuned(name))

    @property
    def contended_heldout(self) -> list[str]:
        """Names of the contended programs of the held-out split."""
        return [name for name in self.contended if self.references[name]["split"] == "heldout"]

    @property
    def controls(self) -> list[str]:
        """Names of the programs of the control split."""
        return [name for name, entry in self.references.items() if entry["split"] == "control"]

    @cached_property
    def solved_budgets(self) -> list[float]:
        """Budgets that held-out programs were solved in, in seconds, least first."""
        return sorted({float(run["budget_s"]) for run in self.runs if run["mode"] == HELD_OUT})

    @cached_property
    def trained_s(self) -> dict[str, float]:
        """Seconds of the longest training on each program within `TRAINED_S`."""
        found: dict[str, float] = {}
        for run in self.runs:
            if run["mode"] == PER_PROGRAM and float(run["budget_s"]) <= TRAINED_S:
                found[run["program"]] = max(found.get(run["program"], 0.0), float(run["budget_s"]))
        return found

    def trained(self, name: str) -> list[Record]:
        """Returns the last run of each seed of the longest training on a program."""
        return self.latest(PER_PROGRAM, name, self.trained_s[name]) if name in self.trained_s else []

    def trained_ratio(self, name: str) -> float | None:
        """Returns latency over production after the longest training on a program, or None without a training."""
        return self.ratio(PER_PROGRAM, name, self.trained_s[name]) if name in self.trained_s else None

    def tuned(self, name: str) -> float:
        """Returns the ratio to production of tuned production."""
        found = self.references[name]["tuned"]
        return 1.0 if found is None else float(found)

    @cached_property
    def _latest(self) -> dict[tuple[str, str, float], dict[int, Record]]:
        found: dict[tuple[str, str, float], dict[int, Record]] = {}
        for run in self.runs:
            found.setdefault((run["mode"], run["program"], float(run["budget_s"])), {})[int(run["seed"])] = run
        return found

    def latest(self, mode: str, name: str, seconds: float) -> list[Record]:
        """Returns the last run of each seed of a mode, program and budget."""
        return list(self._latest.get((mode, name, seconds), {}).values())

    def ratio(self, mode: str, name: str, seconds: float) -> float | None:
        """Returns latency over production, the mean over seeds, or None without a run."""
        runs = self.latest(mode, name, seconds)
        return float(np.mean([run["ratio"] for run in runs])) if runs else None

    @cached_property
    def board(self) -> Board:
        """The runs of the other solvers."""
        return Board(self.solvers, self.references)

    def rival(self, solver: str, name: str, seconds: float) -> tuple[float, bool] | None:
        """Returns the ratio of another solver at its largest budget up to `seconds`, and whether that is `seconds`."""
        budgets = [budget for budget in self.board.budgets if budget <= seconds]
        for budget in sorted({seconds, *budgets}, reverse=True):
            ratio = self.board.ratio(solver, name, budget)
            if ratio is not None:
                return ratio, budget == seconds
        return None
