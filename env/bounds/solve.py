"""Solves linear and mixed-integer programs with HiGHS, and certifies bounds of linear programs from duals alone."""

import atexit
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Thread

import highspy
import numpy as np
from numpy.typing import NDArray

from .linear_program import LinearProgram

# Share by which the dual value of a mixed-integer program is lowered: it comes from many linear programs that HiGHS
# prunes within its tolerances (1e-6 for rows, 1e-7 for duals).
_MIXED_INTEGER_SLACK = 1e-5
_GAP = 1e-5
# Optimality tolerance of the interior-point method. Its last digits take a third of the time and add no validity.
_INTERIOR_GAP = 1e-6
# A solution whose tolerances are in doubt counts as optimal if its value is within this share of the certified bound.
_CLOSE = 1e-4
# Below this many columns the simplex method is faster; it always finds exact duals.
_SMALL = 3000
# HiGHS checks its limit between steps, and steps take longer the larger the program: per column, this much of the limit
# is kept for the last step and for handing the program over.
_LAST_STEP_S = 1e-5
# Columns per second that the interior-point method can be hoped to solve; it solves about 3000. A larger program is not
# tried, since a solver that is cut off has no bound at all.
_COLUMNS_PER_SECOND = 6000.0
# A solver still running this long after its limit is left behind: a single step may take seconds.
_GRACE_S = 0.3
# Threads of the solvers left behind, the last of which may still run.
_left: list[Thread] = []
Progress = Callable[[float, float], None]  # dual value, value of the best integer solution
Found = Callable[[NDArray[np.float64]], None]  # `[columns]` an integer solution
Stop = Callable[[], bool]  # asked some fifty times a second; True ends the solver


@dataclass(frozen=True)
class Solution:
    """The result of a solver.

    Attributes:
      bound: lower bound on the objective; -inf if none was found.
      values: `[columns]` the best solution, or None.
      optimal: the solver finished.
      seconds: time spent.
      stopped: Ctrl-C ended it.
    """

    bound: float
    values: NDArray[np.float64] | None
    optimal: bool
    seconds: float
    stopped: bool = False


def is_hopeless(linear: LinearProgram, seconds: float) -> bool:
    """Returns whether a relaxation is far too large to be solved within a limit."""
    return len(linear.cost) > max(_SMALL, _COLUMNS_PER_SECOND * seconds)


def solve_relaxation(linear: LinearProgram, seconds: float, stop: Stop | None = None, leave: bool = False) -> Solution:
    """Solves without integrality. The bound is certified: it holds whatever the solver's tolerances.

    Args:
      linear: the program; every column must have finite bounds.
      seconds: time limit.
      stop: ends it early.
      leave: do not wait for a solver that `stop` does not end at once; it then has no result.
    """
    began = time.perf_counter()
    solver = _solver(linear, seconds, integer=False)
    if len(linear.cost) > _SMALL:
        # No crossover to a vertex: the bound needs no exact duals.
        solver.setOptionValue("solver", "ipm")
        solver.setOptionValue("run_crossover", "off")
        solver.setOptionValue("ipm_optimality_tolerance", _INTERIOR_GAP)
    stopped, left = _run(solver, stop, leave)
    if left:
        return Solution(-np.inf, None, False, time.perf_counter() - began, stopped)
    solution = _relaxed(linear, solver, stopped, time.perf_counter() - began)
    ended = stopped or (stop is not None and stop())
    if ended or solution.optimal or solver.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
        return solution
    solver = _solver(linear, max(1.0, seconds - (time.perf_counter() - began)), integer=False)
    stopped, left = _run(solver, stop, leave)
    taken = time.perf_counter() - began
    if left:
        return replace(solution, seconds=taken, stopped=stopped)
    again = _relaxed(linear, solver, stopped, taken)
    best = again if again.bound > solution.bound else solution
    return replace(best, seconds=taken, stopped=stopped)


def _relaxed(linear: LinearProgram, solver: "highspy.Highs", stopped: bool, seconds: float) -> Solution:
    """Returns what a solver without integrality has found.

    The interior-point method may end within its own tolerances and yet outside those of HiGHS, which then calls its
    result unknown. It counts as optimal if it lies close to the certified bound.
    """
    found, status = solver.getSolution(), solver.getModelStatus()
    bound = dual_bound(linear, np.array(found.row_dual)) if found.dual_valid else -np.inf
    values = np.array(found.col_value) if found.value_valid else None
    optimal = status == highspy.HighsModelStatus.kOptimal
    if status == highspy.HighsModelStatus.kUnknown and values is not None and np.isfinite(bound):
        value = float(solver.getInfo().objective_function_value)
        optimal = value - bound <= _CLOSE * max(1.0, abs(value))
    return Solution(bound, values, optimal, seconds, stopped)


def dual_bound(linear: LinearProgram, duals: NDArray[np.float64]) -> float:
    """Returns a lower bound on the objective from any duals, exact or not (Neumaier and Shcherbina 2004).

    `cost @ x >= duals @ A x + (cost - duals @ A) @ x` for every `x`; the first term is bounded by the rows' sides, the
    second by the columns' bounds. The largest possible rounding error is subtracted.

    Args:
      linear: the program; every column must have finite bounds.
      duals: `[rows]`.
    """
    cost, low, high, row_low, row_high = linear.arrays()
    duals = np.where((duals > 0) & ~np.isfinite(row_low), 0.0, duals)
    duals = np.where((duals < 0) & ~np.isfinite(row_high), 0.0, duals)
    sides = np.where(duals > 0, row_low, row_high)
    rows = np.where(duals != 0, duals * np.where(np.isfinite(sides), sides, 0.0), 0.0)
    matrix = linear.matrix()
    reduced = cost - matrix.T @ duals
    columns = np.where(reduced > 0, reduced * low, reduced * high)
    # Each reduced cost is a sum of few products, each rounded once; then it is multiplied by its column's bound.
    magnitude = np.abs(cost) + abs(matrix).T @ np.abs(duals)
    terms = int(np.diff(matrix.tocsc().indptr).max(initial=0)) + 2
    rounding = terms * np.finfo(float).eps * float(magnitude @ np.maximum(np.abs(low), np.abs(high)))
    total = float(np.sum(rows, dtype=np.longdouble) + np.sum(columns, dtype=np.longdouble)) + linear.offset
    return float(total - rounding - 1e-12 * (np.abs(rows).sum() + abs(linear.offset)))


def solve_integer(
    linear: LinearProgram,
    seconds: float,
    progress: Progress | None = None,
    found: Found | None = None,
    stop: Stop | None = None,
    nodes: int | None = None,
    leave: bool = False,
) -> Solution:
    """Solves with integrality.

    Args:
      linear: the program.
      seconds: time limit; the dual value is a bound even then.
      progress: called with the dual value and that of the best integer solution as they improve.
      found: called, in the solver's thread, with each integer solution that is better than all before.
      stop: ends it early.
      nodes: limit of branch and bound, which a slow machine does not change.
      leave: do not wait for a solver that `stop` does not end at once; it then has no result but its last dual value.
    """
    if not any(linear.integer):
        return solve_relaxation(linear, seconds, stop, leave)
    solver = _solver(linear, seconds, integer=True)
    solver.setOptionValue("mip_rel_gap", _GAP)
    left, last_dual = False, -np.inf
    if progress is not None or leave:

        def report(event: "highspy.HighsCallbackEvent") -> None:
            nonlocal last_dual
            if left:
                return
            last_dual = max(last_dual, event.data_out.mip_dual_bound)
            if progress is not None:
                progress(event.data_out.mip_dual_bound, event.data_out.mip_primal_bound)

        solver.cbMipLogging.subscribe(report)
    if found is not None:

        def keep(event: "highspy.HighsCallbackEvent") -> None:
            found(np.array(event.data_out.mip_solution))

        solver.cbMipImprovingSolution.subscribe(keep)
    if nodes is not None:
        solver.setOptionValue("mip_max_nodes", nodes)
    began = time.perf_counter()
    stopped, left = _run(solver, stop, leave)
    taken = time.perf_counter() - began
    if left:
        dual = float(last_dual)
        slack = _MIXED_INTEGER_SLACK * max(1.0, abs(dual)) if np.isfinite(dual) else 0.0
        return Solution(dual - slack if np.isfinite(dual) else -np.inf, None, False, taken, stopped)
    status, info, solution = solver.getModelStatus(), solver.getInfo(), solver.getSolution()
    optimal = status == highspy.HighsModelStatus.kOptimal
    bound = float(info.mip_dual_bound) if np.isfinite(info.mip_dual_bound) else -np.inf
    slack = float(_MIXED_INTEGER_SLACK * max(1.0, abs(bound))) if np.isfinite(bound) else 0.0
    values = np.array(solution.col_value) if solution.value_valid else None
    return Solution(bound - slack, values, optimal, taken, stopped)


def _run(solver: "highspy.Highs", stop: Stop | None = None, leave: bool = False) -> tuple[bool, bool]:
    """Runs a solver; Ctrl-C or `stop` ends it with its best solution so far.

    Args:
      solver: the solver.
      stop: asked some fifty times a second; True ends the solver.
      leave: leave a solver that does not end soon after that: it still runs, so nothing may be asked of it.

    Returns:
      Whether Ctrl-C ended it, and whether it was left.
    """
    while _left and _left[-1].is_alive():  # all solvers of a process share a lock
        _left[-1].join(0.02)
        if leave and stop is not None and stop():
            return False, True
    solver.HandleUserInterrupt = True
    thread = solver.startSolve()
    stopped = False
    asked_at: float | None = None
    while True:
        waits = asked_at is None or leave
        try:
            if solver.wait(0.02 if waits else -1.0)[0]:
                return stopped, False
            if stop is not None and asked_at is None and stop():
                asked_at = time.perf_counter()
                solver.cancelSolve()
            if leave and asked_at is not None and time.perf_counter() - asked_at > _GRACE_S:
                # It ends by itself within seconds. The interpreter must not end before it.
                atexit.register(thread.join)
                _left.append(thread)
                return stopped, True
        except KeyboardInterrupt:
            stopped = True
            asked_at = time.perf_counter() if asked_at is None else asked_at
            solver.cancelSolve()


class _Silent(highspy.Highs):
    """HiGHS without its greeting: from 1.16 on, its constructor writes two lines to standard output."""

    def enableCallbacks(self) -> None:  # the constructor's last step
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()


def _solver(linear: LinearProgram, seconds: float, integer: bool) -> "highspy.Highs":
    cost, low, high, row_low, row_high = linear.arrays()
    matrix = linear.matrix()
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(cost), len(row_low)
    model.col_cost_, model.col_lower_, model.col_upper_ = cost, low, high
    model.row_lower_, model.row_upper_ = row_low, row_high
    model.offset_ = linear.offset
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
    model.a_matrix_.value_ = matrix.data
    if integer:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[i] for i in linear.integer]
    solver = _Silent()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("time_limit", max(0.0, seconds - _LAST_STEP_S * len(cost)))
    solver.passModel(model)
    return solver
