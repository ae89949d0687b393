"""Bounds are certified by duals alone."""

import highspy
import numpy as np
import pytest
from bound_cases import CHAIN
from scipy.optimize import Bounds, LinearConstraint, milp

from mallocmuzero.env.bounds import solve
from mallocmuzero.env.bounds.linear_program import LinearProgram
from mallocmuzero.env.bounds.relaxation import SCOPES, build_relaxation
from mallocmuzero.env.bounds.solve import dual_bound, solve_relaxation
from mallocmuzero.env.physics.cost import MSA
from mallocmuzero.env.physics.objective import make_judge


def test_a_bound_from_any_duals_holds() -> None:
    """Bounds hold however bad the duals are, and so do not depend on the solver."""
    linear, _, _ = build_relaxation(make_judge(CHAIN, MSA), SCOPES["legal"], 0.0, 10**6)
    best = solve_relaxation(linear, 60.0)
    rng = np.random.default_rng(1)
    assert best.bound == pytest.approx(best_value(linear), rel=1e-6)
    for scale in (0.0, 1e-6, 1e-2, 1.0):
        assert dual_bound(linear, scale * rng.standard_normal(len(linear.row_low))) <= best.bound * (1 + 1e-9)


@pytest.mark.parametrize(("share", "optimal"), [(1.0, True), (0.9, False)])
def test_a_result_that_the_solver_doubts_counts_by_its_certified_bound(share: float, optimal: bool) -> None:
    """The interior-point method ends so where its tolerances are not those of HiGHS."""
    linear, _, _ = build_relaxation(make_judge(CHAIN, MSA), SCOPES["legal"], 0.0, 10**6)
    best = solve_relaxation(linear, 60.0)
    solver = solve._solver(linear, 60.0, integer=False)
    solver.run()
    found = solve._relaxed(linear, Doubtful(solver, share), False, 1.0)  # type: ignore[arg-type]
    assert found.optimal == optimal
    assert found.values is not None
    assert found.bound <= best.bound * (1 + 1e-9)
    assert (found.bound == pytest.approx(best.bound, rel=1e-6)) == optimal


class Doubtful:
    """A solver that ended with a share of the right duals, and calls the result unknown."""

    def __init__(self, solver: highspy.Highs, share: float) -> None:
        self._solver, self._share = solver, share

    def getModelStatus(self) -> highspy.HighsModelStatus:
        return highspy.HighsModelStatus.kUnknown

    def getSolution(self) -> highspy.HighsSolution:
        solution = self._solver.getSolution()
        solution.row_dual = list(self._share * np.array(solution.row_dual))
        return solution

    def getInfo(self) -> highspy.HighsInfo:
        return self._solver.getInfo()


def best_value(linear: LinearProgram) -> float:
    """Returns the optimum of a linear program by another solver."""
    cost, low, high, row_low, row_high = linear.arrays()
    found = milp(cost, constraints=LinearConstraint(linear.matrix(), row_low, row_high), bounds=Bounds(low, high))
    return float(found.fun) + linear.offset
