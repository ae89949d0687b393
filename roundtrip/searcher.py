"""Searches compiler options for a program, without the compiler: maps it and translates the mapping, or tries flags."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..env.physics.cost import MODELS
from ..env.physics.objective import Judge, latencies, make_judge
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from ..solvers.common.budget import Budget
from ..solvers.solve import Solution, Solvers, solve
from .encoding import Codec
from .translate import Translation, translate
from .translate_workers import translate_with_workers

# The solver's share of a search. The rest is for the translation, which gains from more time when solving hardly does.
_SOLVE = 0.35

# Maps a program under an objective within a budget, with a seed; only the inputs of a mask `[N]` are prefetched across
# programs.
Search = Callable[[Program, str, Budget, int, NDArray[np.bool_]], Solution]


class Found(NamedTuple):
    """What a search has found.

    Attributes:
      wanted: the solver's mapping; for flags alone, the best that our decoder foresees.
      translations: the options, as `translate` returns them.
      seconds: wall time by step: `solve`, except for flags alone, and `translate`.
    """

    wanted: ProgramMapping
    translations: list[Translation]
    seconds: dict[str, float]


class Searcher(NamedTuple):
    """How options are searched.

    Attributes:
      objective: the objective of the search.
      solver: a name in `solvers`.
      solvers: the solvers by name.
      search: maps a program in the solver's place; None for the solver, in this process.
      workers: processes that translate.
      flags_only: search flags alone, which name nothing of the program; nothing is mapped.
      default: the name of the mapping that ratios refer to.
      progress: takes one line at a time.
      clock: returns seconds.
    """

    objective: str
    solver: str
    solvers: Solvers
    search: Search | None = None
    workers: int = 1
    flags_only: bool = False
    default: str = "XLA's default"
    progress: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic

    def find(self, program: Program, seconds: float, seed: int) -> Found:
        """Searches for `seconds`; a search of flags alone ends by itself."""
        begin, judge = self.clock(), make_judge(program, self.objective)
        assert judge.production_s is not None
        assert program.production is not None
        if self.flags_only:
            found = translate(judge, program.production, seconds, seed=seed, clock=self.clock, flags_only=True)
            self._say_decodes(found)
            return Found(found[0].mapping, found, {"translate": self.clock() - begin})
        self.progress(f"mapping it with {self.solver}")
        solution = self._map(judge, Budget(_SOLVE * seconds), seed)
        solve_s = self.clock() - begin
        self.progress(
            f"{self.solver}: {told_us(program, solution.mapping)}, {solution.judged_s / judge.production_s:.2%} of "
            f"{self.default} ({judge.objective}), after {solution.evaluations:,} games, {solve_s:.0f} s"
        )
        found = translate_with_workers(
            judge,
            solution.mapping,
            max(0.0, seconds - solve_s),
            seed=seed,
            workers=self.workers,
            clock=self.clock,
        )
        self._say_decodes(found)
        return Found(solution.mapping, found, {"solve": solve_s, "translate": self.clock() - begin - solve_s})

    def _map(self, judge: Judge, budget: Budget, seed: int) -> Solution:
        program, crossable = judge.program, Codec(judge, seed).may_cross
        if self.search is not None:
            return self.search(program, self.objective, budget, seed, crossable)
        return solve(
            program,
            self.solver,
            objective=self.objective,
            budget=budget,
            seed=seed,
            repack=True,
            solvers=self.solvers,
            crossable=crossable,
        )

    def _say_decodes(self, found: list[Translation]) -> None:
        self.progress(f"{found[0].decodes:,} sets of options decoded")


def told_us(program: Program, mapping: ProgramMapping) -> str:
    """Returns the latency of a mapping under the cost models that can price it."""
    found = latencies(program, mapping)
    return ", ".join(f"{s * 1e6:,.2f} us ({model})" for model in MODELS if (s := found[model]) is not None)
