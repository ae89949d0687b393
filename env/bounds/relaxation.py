"""Builds the relaxation of a program: a linear program whose least cost no legal mapping undercuts.

The model: docs/bounds.md.
"""

from dataclasses import replace

import numpy as np

from ..physics.cost import all_hbm_latency
from ..physics.objective import ROBUST, Judge
from ..program.program import all_hbm
from .deadline import NO_DEADLINE, Deadline, TimeIsUp
from .linear_program import Expression, LinearProgram
from .placement import Placement, Rules
from .placement_rows import add_placement
from .timing import add_time, least_worth, worth_by_buffer

# Rules of the mappings that a bound covers, by name.
SCOPES = {
    "legal": Rules(),
    "unreplaced": Rules(replacements=False),
    "game": Rules(replacements=False, most_cross_program=1),
}
# The buffers left out may save this share of the all-in-HBM latency: the least that makes the program small enough.
_LEFT_OUT_SHARES = (1e-4, 3e-4, 1e-3)
_MOST_ACCESSES = 6000
# Further shares for when time is short, and the accesses allowed per second under one cost model: more than a solver
# handles for most programs (about 280), so that these shares coarsen no program that could have been solved.
_SHORT_SHARES = (3e-3, 1e-2, 3e-2, 1e-1)
_ACCESSES_PER_SECOND = 400.0
_FEW_ACCESSES = 1000  # tried in any case
_UNITS = 1000.0  # the latency with everything in HBM


def build_relaxation(
    judge: Judge,
    rules: Rules,
    left_out_share: float | None,
    most_capacity_rows: int,
    deadline: Deadline = NO_DEADLINE,
) -> tuple[LinearProgram, Placement, float]:
    """Returns the relaxation, the meaning of its columns, and its unit of time in seconds of the judge.

    Args:
      judge: judges the mappings; its objective is the cost.
      rules: freedoms of the mappings.
      left_out_share, most_capacity_rows: as for `bound`.
      deadline: time limit. Where little is left, more buffers are left out.

    Raises:
      TimeIsUp: the limit has passed, or no share leaves out enough to build and solve the relaxation before it.
    """
    program, target, models = judge.program, judge.target, judge.models
    main = models[0]
    unit_s = all_hbm_latency(program, target, main) / _UNITS
    left_out = _left_out(judge, left_out_share, deadline)
    linear = LinearProgram()
    rules = replace(rules, most_capacity_rows=most_capacity_rows)
    placement = add_placement(program, target, linear, rules, left_out, unit_s, len(models), deadline)
    latencies = [
        add_time(program, target, linear, placement, tree, unit_s, model, deadline)
        for model, tree in zip(models, placement.trees, strict=True)
    ]
    if judge.objective == ROBUST:
        # The worse of both latencies, in units of the first: a column that is no less than either.
        worst = linear.column(0.0, 2.0 * judge.judge(all_hbm(program)) / unit_s, cost=1.0)
        for latency, model in zip(latencies, models, strict=True):
            scale = judge.baseline[main] / judge.baseline[model] if judge.baseline[model] > 0 else 0.0
            linear.at_least(Expression.of(worst).add(latency, -scale))
            if rules.thrift > 0:
                for column, weight in latency.terms.items():
                    linear.cost[column] += rules.thrift * scale * weight
    else:
        for column, weight in latencies[0].terms.items():
            linear.cost[column] += weight
        linear.offset = latencies[0].constant
    return linear, placement, unit_s


def _left_out(judge: Judge, left_out_share: float | None, deadline: Deadline) -> frozenset[int]:
    """Returns the buffers to leave out.

    Raises:
      TimeIsUp: too many accesses remain for the time left, whatever the share.
    """
    program, target, models = judge.program, judge.target, judge.models
    deadline.check()
    priced = [(worth_by_buffer(program, target, m), all_hbm_latency(program, target, m)) for m in models]

    def minor(share: float) -> tuple[frozenset[int], int]:
        deadline.check()
        found = frozenset.intersection(*(least_worth(program, target, worth, share * s) for worth, s in priced))
        out = np.zeros(program.num_buffers, bool)
        out[list(found)] = True
        return found, int(np.count_nonzero(~out[program.access_buffer]))

    for share in _LEFT_OUT_SHARES if left_out_share is None else (left_out_share,):
        left_out, accesses = minor(share)
        if accesses <= _MOST_ACCESSES:
            break
    most = max(float(_FEW_ACCESSES), _ACCESSES_PER_SECOND / len(models) * deadline.left)
    for share in _SHORT_SHARES if left_out_share is None else ():
        if accesses <= most:
            break
        left_out, accesses = minor(share)
    if accesses > most:
        raise TimeIsUp
    return left_out
