"""A certified lower bound on what any mapping of a program can reach, and the best mapping that was met on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ..errors import UserError
from ..physics.cost import all_hbm_latency
from ..physics.objective import ROBUST, Judge, make_judge
from ..program.mapping import Mapping
from ..program.program import Program, all_hbm
from ..program.target import Target
from ..verifier.verify import verify
from .construct import constructed
from .history import replaceable
from .linear import Expression, LinearProgram
from .placement import Placement, Rules, place
from .repair import choice_of, repaired
from .solve import solve_integer, solve_relaxation
from .timing import add_time, least_latency, minor_buffers

# Raise it when bounds mean something else: results are kept by it. Tighter ones take `benchmarks/bounds/measure.py --again`.
VERSION = 2
# A bound within this much of a mapping proves it optimal, for all that the cost models can tell apart.
PROVED_GAP = 1e-3
# What is left out may be worth this share of the all-in-HBM latency: the least that makes the program small enough.
_LEFT_OUT_SHARES = (1e-4, 3e-4, 1e-3)
_MOST_ACCESSES = 6000
_UNITS = 1000.0  # the latency with everything in HBM
# What rounding in sums of run times may be worth.
_ROUNDING = 1e-9
SCOPES = {
    "legal": Rules(),
    "unreplaced": Rules(replacements=False),
    "game": Rules(replacements=False, most_ahead=1),
}


@dataclass
class Bound:
    """What is known of the best mapping of a program. Seconds are the judge's (`objective.Judge.seconds`).

    Attributes:
      objective: what mappings are judged by.
      scope: which mappings the bound is for: `legal` for all that verify, `unreplaced` for those in which no copy
        replaces an instruction, `game` for what the game can play.
      floor_s: every instruction as fast as it can be, and copies free. No bound where copies may replace instructions.
      relaxation_s: bound from the linear relaxation, certified; None before it is solved.
      integer_s: bound from the mixed-integer program; None if it was not tried or found none.
      bound_s: the best of the bounds.
      mapping: the best mapping met, XLA's own (with any of the flags) included; it verifies.
      mapping_s: what it comes to.
      found_s: the best of the mappings made from solutions; None if none was made.
      production_s: what XLA's own mapping comes to, or None.
      optimal: the mixed-integer program was solved to the end.
      stopped: Ctrl-C ended the solver.
      seconds: time spent.
      size: columns, rows, and integer columns of the relaxation.
    """

    objective: str
    scope: str
    floor_s: float
    production_s: float | None
    mapping: Mapping
    mapping_s: float
    bound_s: float = 0.0
    relaxation_s: float | None = None
    integer_s: float | None = None
    found_s: float | None = None
    optimal: bool = False
    stopped: bool = False
    seconds: float = 0.0
    size: tuple[int, int, int] = (0, 0, 0)

    @property
    def gap(self) -> float:
        """How much better than the best mapping met, at most, another one can be: a share of it."""
        return 1.0 - self.bound_s / self.mapping_s if self.mapping_s > 0 else 0.0

    @property
    def proved(self) -> bool:
        """Whether the bound proves the best mapping met to be optimal, to within `PROVED_GAP`."""
        return self.mapping_s <= self.bound_s * (1.0 + PROVED_GAP)


Report = Callable[[str, Bound], None]


def bound(
    program: Program,
    objective: str | None = None,
    seconds: float = 60.0,
    scope: str = "legal",
    target: Target | None = None,
    report: Report = lambda stage, bound: None,
    left_out_share: float | None = None,
    most_room_rows: int = Rules.most_room_rows,
    integer: bool = True,
) -> Bound:
    """Bounds the latency of every mapping of a program from below, and looks for mappings that come near.

    Args:
      program: the program.
      objective: `robust`, `msa` or `cycles`; None for `robust` where `cycles` can price the program, else `msa`.
      seconds: about how long it may take: the linear relaxation gets what it needs of it, integer solutions the rest.
      scope: one of `SCOPES`: which mappings the bound is for.
      target: the hardware; None for the program's own.
      report: called with a stage and what is known so far.
      left_out_share: buffers worth less than this together, relative to everything in HBM, are taken to be fast for
        nothing; None for 1e-4 to 1e-3, the more the larger the program.
      most_room_rows: at how many instructions, at most, the buffers are made to fit.
      integer: go on to the mixed-integer program.

    Raises:
      UserError: the objective or scope is not known, or the objective needs a cycle table that the program lacks.
    """
    if scope not in SCOPES:
        raise UserError(f"scope {scope!r} is not known; choose one of {', '.join(SCOPES)}")
    if not seconds > 0:
        raise UserError(f"a bound needs time: {seconds:g} seconds are too few")
    began = time.perf_counter()
    judge = make_judge(program, objective, target)
    nothing = all_hbm(program)
    all_hbm_s = judge.judge(nothing)
    result = Bound(judge.objective, scope, judge.floor_s(), judge.production_s, nothing, all_hbm_s)
    known = [program.production, *(variant.mapping for variant in program.variants)]
    for mapping in (mapping for mapping in known if mapping is not None and target is None):
        if judge.judge(mapping) < result.mapping_s and not verify(program, judge.target, mapping):
            result.mapping, result.mapping_s = mapping, judge.judge(mapping)
    if not all_hbm_s > 0:
        return result
    result.bound_s = _least(judge) * (1.0 - _ROUNDING)

    def proved_at_least(value: float, unit_s: float) -> float:
        # What is better than everything in HBM is all that the columns' upper bounds allow for.
        return min(value * unit_s * (1.0 - _ROUNDING), all_hbm_s)

    linear, placement, unit_s = relaxation(judge, SCOPES[scope], left_out_share, most_room_rows)
    result.size = len(linear.cost), len(linear.row_low), sum(linear.integer)
    report("relaxation", result)
    solved = solve_relaxation(linear, max(1.0, seconds - (time.perf_counter() - began)))
    if np.isfinite(solved.bound):
        result.relaxation_s = proved_at_least(solved.bound, unit_s)
        result.bound_s = max(result.bound_s, result.relaxation_s)
    report("mappings", result)
    if solved.values is not None:
        _follow(judge, placement, solved.values, result, report)
    result.seconds = time.perf_counter() - began
    result.stopped = solved.stopped
    if integer and not result.proved and not solved.stopped and seconds - result.seconds > max(1.0, solved.seconds):
        report("integer", result)

        def progress(dual: float, best: float) -> None:
            if np.isfinite(dual):
                value = proved_at_least(dual * (1.0 - 1e-5), unit_s)
                result.integer_s = max(result.integer_s or 0.0, value)
                result.bound_s = max(result.bound_s, result.integer_s)
            result.seconds = time.perf_counter() - began
            report("integer", result)

        mixed = solve_integer(linear, seconds - result.seconds, progress)
        result.optimal, result.stopped = mixed.optimal, mixed.stopped
        if np.isfinite(mixed.bound):
            result.integer_s = max(result.integer_s or 0.0, proved_at_least(mixed.bound, unit_s))
            result.bound_s = max(result.bound_s, result.integer_s)
        if mixed.values is not None:
            _follow(judge, placement, mixed.values, result, report)
        spent = time.perf_counter() - began
        if mixed.values is not None and not (mixed.stopped or result.proved):
            # Mappings are made of whole buffers: of a solution in parts they keep little.
            report("mappings", result)
            rules = replace(SCOPES[scope], whole=True)
            linear, placement, _ = relaxation(judge, rules, left_out_share, most_room_rows)
            mixed = solve_integer(linear, max(1.0, min(seconds - spent, 2.0 * mixed.seconds)))
            result.stopped = mixed.stopped
            if mixed.values is not None:
                _follow(judge, placement, mixed.values, result, report)
    result.seconds = time.perf_counter() - began
    report("done", result)
    return result


def _least(judge: Judge) -> float:
    """Returns a bound that needs no solver: the floor without the instructions that copies may replace."""
    replaced = np.zeros(judge.program.num_instructions, bool)
    replaced[list(replaceable(judge.program))] = True
    return judge.seconds({m: least_latency(judge.program, judge.target, m, ~replaced) for m in judge.models})


def relaxation(
    judge: Judge, rules: Rules, left_out_share: float | None, most_room_rows: int
) -> tuple[LinearProgram, Placement, float]:
    """Returns the relaxation, its placement and its unit of time in seconds of the judge.

    Args:
      judge: what mappings are judged by.
      rules: what mappings may do.
      left_out_share: as `bound`.
      most_room_rows: at how many instructions, at most, the buffers are made to fit.
    """
    program, target, models = judge.program, judge.target, judge.models
    main = models[0]
    unit_s = all_hbm_latency(program, target, main) / _UNITS
    for share in _LEFT_OUT_SHARES if left_out_share is None else (left_out_share,):
        left_out = frozenset.intersection(*(minor_buffers(program, target, model, share) for model in models))
        if np.count_nonzero(~np.isin(program.access_buffer, list(left_out))) <= _MOST_ACCESSES:
            break
    linear = LinearProgram()
    rules = replace(rules, most_room_rows=most_room_rows)
    placement = place(program, target, linear, rules, left_out, unit_s, len(models))
    latencies = [
        add_time(program, target, linear, placement, tree, unit_s, model)
        for model, tree in zip(models, placement.trees, strict=True)
    ]
    if judge.objective == ROBUST:
        # The worse of both, in units of the first: no less than either.
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


def _follow(judge: Judge, placement: Placement, values: np.ndarray, result: Bound, report: Report) -> None:
    program, target = judge.program, judge.target
    for mapping in chain(
        constructed(judge, placement, values), repaired(program, target, choice_of(placement, values))
    ):
        latency = judge.judge(mapping)
        result.found_s = latency if result.found_s is None else min(result.found_s, latency)
        if latency < result.mapping_s:
            result.mapping, result.mapping_s = mapping, latency
            report("mappings", result)
