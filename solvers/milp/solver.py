"""The mixed-integer program of `env/bounds`, solved for mappings instead of a bound.

A solution says which accesses are fast, what stays between two touches and when copies run, all as shares. Three ways
lead from it to a mapping: a plan that the game plays (`rounding.py`: a fraction of a millisecond, and offsets are the
game's), construction (`env/bounds/construct.py`: the copies when the solution has them, then the packer; several
cross-program prefetches), and play beside residents (`env/bounds/repair.py`). The relaxation comes first, so that there
is something soon; better integer solutions are played as HiGHS finds them.

The model does not see offsets, the order of copies or the room of bytes on their way, and has many optima where a bound
has slack. So it is solved several times, each time counting on less room and bandwidth, or charging for copies. As much
time as solving takes goes to crossing the best plan with random roundings of all solutions, and so does what is left.
"""

import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...env.bounds.bound import SCOPES, relaxation
from ...env.bounds.construct import constructed
from ...env.bounds.placement import Rules
from ...env.bounds.repair import choice_of, repaired
from ...env.bounds.solve import solve_integer, solve_relaxation
from ...env.game.rules import COPY
from ...env.physics.cost import all_hbm_latency
from ...env.physics.objective import ROBUST, Judge, make_judge
from ..common.task import Task
from .rounding import Shares, cross, rounded, shares_of

# Which mappings the model is to hold: copies in place of instructions are no use to the ways above.
_SCOPE = SCOPES["unreplaced"]


@dataclass(frozen=True)
class _Pass:
    """One way to set up the model.

    Attributes:
      rules: the model's.
      objective: None for the task's, else one of its cost models.
    """

    rules: Rules
    objective: str | None = None


def _rules(**changes: object) -> Rules:
    return replace(_SCOPE, **changes)  # type: ignore[arg-type]


PASSES = (
    _Pass(_rules(copy_rate=0.7)),
    _Pass(_rules(copy_rate=0.7, in_flight=True, room=0.9, thrift=0.02)),
    _Pass(_rules(whole=True, in_flight=True)),
    _Pass(_rules(copy_rate=0.7), "cycles"),
    _Pass(_rules(copy_rate=0.7), "msa"),
    _Pass(_rules(copy_rate=0.5, in_flight=True, thrift=0.2)),
    _Pass(_rules(whole=True, copy_rate=0.85, room=0.95)),
    _Pass(_rules()),
)
# Where there are more accesses, models of one clock, a quarter of the work, come first; where there are many more, all
# are made coarser: fewer instructions at which all must fit, more left out.
_MANY, _LARGE = 1500, 2500
_COARSE_ROWS, _COARSE_SHARE = 50, 3e-3
_THRESHOLDS = (0.5, 0.9, 0.1, 0.7, 0.3)
_CONSTRUCTED, _REPAIRED = 2, 2
_PACKER_NODES = 20_000
# The relaxation may take this share of what is left, an integer solution that of what is left after it.
_RELAXATION_SHARE, _INTEGER_SHARE = 0.6, 0.35
# An integer solution is sought if that may take this many times what the relaxation took.
_WORTH_TRYING = 2.0
_LONG = 1e9  # seconds
_NODES_PER_EVALUATION = 0.1  # of branch and bound, where only evaluations are limited
_CROSSINGS = 20  # at a time, there


def milp(task: Task) -> None:
    """Solves the model in one way after the other, each solution made into mappings; then crosses roundings."""
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
    """Crosses for as long as has passed `since`, or a number of times where seconds are not limited."""
    now, crossings = task.seconds, 0
    task.doing += ", crossing"
    while not task.done:
        if crossings >= _CROSSINGS and (task.budget.seconds is None or task.seconds - now >= now - since):
            return
        cross(task, pool)
        crossings += 1


def _one_pass(task: Task, judge: Judge, rules: Rules, pool: list[Shares], number: str) -> None:
    """Sets the model up, solves it without and with integrality, and makes mappings of both."""
    task.doing = f"model {number}: building"
    if not all(all_hbm_latency(judge.program, judge.target, model) > 0 for model in judge.models):
        return  # there is no time to save, and none to count in
    large = len(task.tables.access) > _LARGE
    rows = _COARSE_ROWS if large else rules.most_room_rows
    linear, placement, _ = relaxation(judge, rules, _COARSE_SHARE if large else None, rows)
    if task.done:
        return

    def offer(values: NDArray[np.float64], slowly: bool) -> None:
        spent, offered = task.seconds - began, task.seconds

        def late() -> bool:  # no more than what solving took
            return task.done or (task.budget.seconds is not None and task.seconds - offered > spent)

        shares = shares_of(task, placement, values)
        pool.append(shares)
        for clock, threshold in itertools.product(task.clocks, _THRESHOLDS):
            if task.done:
                return
            task.take(task.clock(clock))
            task.play(rounded(task, shares, threshold, waits=clock != task.clocks[0]))
        if slowly and task.seconds_left > spent:
            ways = constructed(task.game.judge, placement, values, late, _PACKER_NODES)
            for mapping in itertools.islice(ways, _CONSTRUCTED):
                task.offer_mapping(mapping)
            for mapping in itertools.islice(
                repaired(judge.program, judge.target, choice_of(placement, values)), _REPAIRED
            ):
                task.offer_mapping(mapping)
                if late():
                    return

    task.doing = f"model {number}: relaxation"
    began = task.seconds
    until = began + task.seconds_left * _RELAXATION_SHARE
    # By the budget's own clock, which a solver's limit of time does not know.
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
