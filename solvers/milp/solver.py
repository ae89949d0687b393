"""The solver `milp`: the mixed-integer program of `env/bounds`, solved for mappings instead of a bound.

A solution gives the share of each access that is fast, of each stay, and of each copy. Two ways lead from it to a
mapping: a plan that the game plays, with the game's offsets, in a fraction of a millisecond (`rounding.py`); and
construction, with the solution's copies and packed offsets (`env/bounds/construct.py`). The relaxation is solved first,
for an early mapping; better integer solutions are played as HiGHS finds them.

The model leaves out offsets, the order of copies and the memory of bytes in flight, and has many optima. Therefore it
is solved several times, with less memory and bandwidth each time, or with a charge for copies. After each solve as much
time goes to crossing the best plan with random roundings of all solutions, and so does the rest of the budget.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...env.bounds.construct import constructed
from ...env.bounds.placement import Rules
from ...env.bounds.relaxation import SCOPES, build_relaxation
from ...env.bounds.solve import solve_integer, solve_relaxation
from ...env.game.moves import COPY
from ...env.physics.cost import all_hbm_latency
from ...env.physics.objective import ROBUST, Judge, make_judge
from ...env.program.mapping import CROSS_PROGRAM
from ..common.task import Task
from .rounding import Shares, cross, rounded, shares_of

# The mappings that the model allows: those of the game. Neither way makes copies in place of instructions, and more
# than one cross-program prefetch is free to the cost models alone (docs/decisions/0040-the-input-across-programs.md).
_SCOPE = SCOPES["game"]


@dataclass(frozen=True)
class _Pass:
    """One set-up of the model.

    Attributes:
      rules: the rules of the model.
      objective: None for the task's, else one of its cost models.
    """

    rules: Rules
    objective: str | None = None


def _rules(**changes: object) -> Rules:
    return replace(_SCOPE, **changes)  # type: ignore[arg-type]


PASSES = (
    _Pass(_rules(copy_rate=0.7)),
    _Pass(_rules(copy_rate=0.7, in_flight=True, capacity_share=0.9, thrift=0.02)),
    _Pass(_rules(whole=True, in_flight=True)),
    _Pass(_rules(copy_rate=0.7), "cycles"),
    _Pass(_rules(copy_rate=0.7), "msa"),
    _Pass(_rules(copy_rate=0.5, in_flight=True, thrift=0.2)),
    _Pass(_rules(whole=True, copy_rate=0.85, capacity_share=0.95)),
    _Pass(_rules()),
)
# With more accesses than the first, models of a single cost model, a quarter of the work, come first. With more than
# the second, all models are coarser: fewer instructions at which everything must fit, and more buffers left out.
_MANY, _LARGE = 1500, 2500
_COARSE_ROWS, _COARSE_SHARE = 50, 3e-3
_THRESHOLDS = (0.5, 0.9, 0.1, 0.7, 0.3)
_CONSTRUCTED = 2
_PACKER_NODES = 20_000
# Shares of the time left that the relaxation and, after it, an integer solution may take.
_RELAXATION_SHARE, _INTEGER_SHARE = 0.6, 0.35
# An integer solution is sought if it may take this many times the relaxation's time.
_WORTH_TRYING = 2.0
_LONG = 1e9  # seconds
# Nodes of branch and bound, where only evaluations are limited.
_NODES_PER_EVALUATION = 0.1
# Least number of crossings after each solve.
_CROSSINGS = 20


def milp(task: Task) -> None:
    """Solves one set-up of the model after the other, makes mappings of each solution, then crosses roundings."""
    task.doing = "everything fast"
    task.play(np.full(len(task.tables.access), COPY, np.int8))
    pool: list[Shares] = []
    judge = task.game.judge
    passes = [way for way in PASSES if way.objective is None or judge.objective == ROBUST]
    if len(task.tables.access) > _MANY:
        passes.sort(key=lambda way: way.objective is None)
    for number, way in enumerate(passes):
        if task.done or not len(task.free):
            return
        asked = judge if way.objective is None else make_judge(judge.program, way.objective, judge.target)
        _one_pass(task, asked, way.rules, pool, f"{number + 1} of {len(passes)}")
    task.doing = "crossing"
    while not task.done and pool:
        cross(task, pool)


def _cross(task: Task, pool: list[Shares], since: float) -> None:
    """Crosses for as long as has passed `since`; without a limit of seconds, a fixed number of times."""
    now, crossings = task.seconds, 0
    task.doing += ", crossing"
    while not task.done:
        if crossings >= _CROSSINGS and (task.budget.seconds is None or task.seconds - now >= now - since):
            return
        cross(task, pool)
        crossings += 1


def _one_pass(task: Task, judge: Judge, rules: Rules, pool: list[Shares], number: str) -> None:
    """Builds the model, solves it without and with integrality, and makes mappings of both solutions."""
    task.doing = f"model {number}: building"
    if not all(all_hbm_latency(judge.program, judge.target, model) > 0 for model in judge.models):
        return  # no time to save, and no unit of time for the model
    large = len(task.tables.access) > _LARGE
    rows = _COARSE_ROWS if large else rules.most_capacity_rows
    linear, placement, _ = build_relaxation(judge, rules, _COARSE_SHARE if large else None, rows)
    if task.done:
        return

    def offer(values: NDArray[np.float64], slowly: bool) -> None:
        spent, offered = task.seconds - began, task.seconds

        def late() -> bool:  # more time than solving took
            return task.done or (task.budget.seconds is not None and task.seconds - offered > spent)

        shares = shares_of(task, placement, values)
        pool.append(shares)
        for clock, threshold in itertools.product(task.msa_shares, _THRESHOLDS):
            if task.done:
                return
            task.use(task.tables_with(clock))
            task.play(rounded(task, shares, threshold, waits=clock != task.msa_shares[0]))
        if slowly and task.seconds_left > spent:
            ways = constructed(task.game.judge, placement, values, late, _PACKER_NODES)
            for mapping in itertools.islice(ways, _CONSTRUCTED):
                if np.count_nonzero(mapping.copies[:, 1] == CROSS_PROGRAM) <= 1:
                    task.offer_mapping(mapping)

    task.doing = f"model {number}: relaxation"
    began = task.seconds
    until = began + task.seconds_left * _RELAXATION_SHARE
    # The budget's own clock may differ from that of the library's limit.
    solved = solve_relaxation(linear, _LONG, lambda: task.done or task.seconds > until)
    took = task.seconds - began
    if solved.stopped:
        raise KeyboardInterrupt
    if task.done or solved.values is None:
        return
    offer(solved.values, slowly=True)
    _cross(task, pool, began)
    seconds = task.seconds_left * _INTEGER_SHARE
    until = task.seconds + seconds
    if task.done or seconds < _WORTH_TRYING * took:
        return
    task.doing = f"model {number}: integer"
    waiting: list[NDArray[np.float64]] = []

    def look() -> bool:
        while waiting:
            offer(waiting.pop(), slowly=False)
        return task.done or task.seconds > until

    nodes = None
    if task.budget.seconds is None and task.budget.evaluations is not None:
        nodes = 1 + int(_NODES_PER_EVALUATION * task.budget.evaluations)
    began = task.seconds
    mixed = solve_integer(linear, _LONG, None, waiting.append if nodes is None else None, look, nodes)
    if mixed.values is not None and not task.done:
        offer(mixed.values, slowly=True)
    if mixed.stopped:
        raise KeyboardInterrupt
    if mixed.values is not None:
        _cross(task, pool, began)
