"""Builds the relaxation of a program: a linear program whose least cost no legal mapping undercuts.

The model: docs/bounds.md.
"""

from dataclasses import replace

import numpy as np

from ..physics.cost import all_hbm_latency
from ..physics.objective import ROBUST, Judge
from ..program.program import all_hbm
from .linear_program import Expression, LinearProgram
from .placement import Placement, Rules
from .placement_rows import add_placement
from .timing import add_time, minor_buffers

# Rules of the mappings that a bound is for, by name.
SCOPES = {
    "legal": Rules(),
    "unreplaced": Rules(replacements=False),
    "game": Rules(replacements=False, most_cross_program=1),
}
# The buffers left out may be worth this share of the all-in-HBM latency: the least that makes the program small enough.
_LEFT_OUT_SHARES = (1e-4, 3e-4, 1e-3)
_MOST_ACCESSES = 6000
_UNITS = 1000.0  # the latency with everything in HBM


def build_relaxation(
    judge: Judge, rules: Rules, left_out_share: float | None, most_capacity_rows: int
) -> tuple[LinearProgram, Placement, float]:
    """Returns the relaxation, the meaning of its columns, and its unit of time in seconds of the judge.

    Args:
      judge: judges the mappings; its objective is the cost.
      rules: freedoms of the mappings.
      left_out_share, most_capacity_rows: as for `bound`.
    """
    program, target, models = judge.program, judge.target, judge.models
    main = models[0]
    unit_s = all_hbm_latency(program, target, main) / _UNITS
    for share in _LEFT_OUT_SHARES if left_out_share is None else (left_out_share,):
        left_out = frozenset.intersection(*(minor_buffers(program, target, model, share) for model in models))
        if np.count_nonzero(~np.isin(program.access_buffer, list(left_out))) <= _MOST_ACCESSES:
            break
    linear = LinearProgram()
    rules = replace(rules, most_capacity_rows=most_capacity_rows)
    placement = add_placement(program, target, linear, rules, left_out, unit_s, len(models))
    latencies = [
        add_time(program, target, linear, placement, tree, unit_s, model)
        for model, tree in zip(models, placement.trees, strict=True)
    ]
    if judge.objective == ROBUST:
        # The worse of both latencies, in units of the first: a column that is at least either.
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
