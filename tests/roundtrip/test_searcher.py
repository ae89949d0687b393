"""The search for options: what it asks of the solver."""

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.encoding import Codec
from mallocmuzero.roundtrip.searcher import Searcher
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import SOLVERS, Solution, solve

PROGRAM = "dlrm-train-b2048"


def test_the_solver_prefetches_across_programs_only_what_options_can_have_prefetched() -> None:
    program = load(PROGRAM)
    found = Searcher("msa", "anneal", SOLVERS, progress=lambda line: None).find(program, 2.0, 0)
    across = found.wanted.copies[found.wanted.copies[:, 1] == CROSS_PROGRAM, 0]
    may_cross = Codec(make_judge(program, "msa"), 0).may_cross
    assert may_cross[across].all()
    allowed = MallocGame(program, objective="msa").tables.buffer["cross"] == 1
    assert (allowed & ~may_cross).any(), "the game allows more"


def test_a_search_in_the_solvers_place_is_told_the_same() -> None:
    told: list[NDArray[np.bool_]] = []

    def search(program: Program, objective: str, budget: Budget, seed: int, crossable: NDArray[np.bool_]) -> Solution:
        told.append(crossable)
        return solve(program, "anneal", objective=objective, budget=Budget(None, 50), seed=seed, crossable=crossable)

    program = load(PROGRAM)
    Searcher("msa", "anneal", SOLVERS, search, progress=lambda line: None).find(program, 0.5, 0)
    assert np.array_equal(told[0], Codec(make_judge(program, "msa"), 0).may_cross)
