"""Bounds the latency of every mapping of a program from below, and keeps the best mapping met on the way."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ..errors import UserError
from ..physics.objective import Judge, make_judge
from ..program.mapping import Mapping
from ..program.program import Program, all_hbm
from ..program.target import Target
from ..verifier.verify import verify
from .construct import constructed
from .placement import Placement, Rules
from .relaxation import SCOPES, build_relaxation
from .repair import choice_of, repaired
from .solve import solve_integer, solve_relaxation
from .timing import least_latency
from .touches import replaceable

# Part of the key of stored results: raise it when bounds change their meaning. For tighter bounds of the same meaning,
# run `python -m benchmarks.bounds.measure --again`.
VERSION = 2
# A bound within this share of a mapping proves it optimal: the cost models are no more exact than that.
PROVED_GAP = 1e-3
# Relative error that rounding may leave in sums of run times.
_ROUNDING = 1e-9


@dataclass
class Bound:
    """A lower bound and the best mapping known. Seconds are the judge's (`objective.Judge.seconds`).

    Attributes:
      objective: objective of the judge.
      scope: the mappings that the bound is for: `legal` for all that verify, `unreplaced` for those in which no copy
        replaces an instruction, `game` for those that the game can play.
      floor_s: latency with every instruction at its fastest and copies free. No bound if copies may replace
        instructions.
      relaxation_s: bound from the linear relaxation, certified; None before it is solved.
      integer_s: bound from the mixed-integer program; None if it was not tried or found none.
      bound_s: the best of the bounds.
      mapping: the best mapping met, XLA's own (with any of the flags) included; it verifies.
      mapping_s: its seconds.
      found_s: seconds of the best mapping made from a solution; None if none was made.
      production_s: seconds of XLA's own mapping, or None.
      optimal: the mixed-integer program was solved to the end.
      stopped: Ctrl-C ended the solver.
      seconds: time spent.
      size: numbers of columns, rows and integer columns of the relaxation.
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
        """The most that another mapping can save, as a share of the best mapping met."""
        return 1.0 - self.bound_s / self.mapping_s if self.mapping_s > 0 else 0.0

    @property
    def proved(self) -> bool:
        """True if the bound proves the best mapping met to be optimal, to within `PROVED_GAP`."""
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
    most_capacity_rows: int = Rules.most_capacity_rows,
    integer: bool = True,
) -> Bound:
    """Bounds the latency of every mapping of a program from below, and looks for mappings near the bound.

    Args:
      program: the program.
      objective: `robust`, `msa` or `cycles`; None for `robust` where `cycles` can price the program, else `msa`.
      seconds: limit of time, roughly kept: the linear relaxation comes first, integer solutions get the rest.
      scope: one of `SCOPES`: the mappings that the bound is for.
      target: the hardware; None for the program's own.
      report: called with the name of a stage and the bound so far.
      left_out_share: buffers that together save less than this share of the all-in-HBM latency count as fast at no
        cost; None for 1e-4 to 1e-3, the more the larger the program.
      most_capacity_rows: most instructions at which the resident buffers have to fit.
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
        # Upper bounds of columns cut off solutions worse than everything in HBM.
        return min(value * unit_s * (1.0 - _ROUNDING), all_hbm_s)

    linear, placement, unit_s = build_relaxation(judge, SCOPES[scope], left_out_share, most_capacity_rows)
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
            # Constructed mappings keep whole buffers, and so lose most of a solution that keeps parts.
            report("mappings", result)
            rules = replace(SCOPES[scope], whole=True)
            linear, placement, _ = build_relaxation(judge, rules, left_out_share, most_capacity_rows)
            mixed = solve_integer(linear, max(1.0, min(seconds - spent, 2.0 * mixed.seconds)))
            result.stopped = mixed.stopped
            if mixed.values is not None:
                _follow(judge, placement, mixed.values, result, report)
    result.seconds = time.perf_counter() - began
    report("done", result)
    return result


def _least(judge: Judge) -> float:
    """Returns a bound without a solver: the floor of the instructions that no copy may replace."""
    replaced = np.zeros(judge.program.num_instructions, bool)
    replaced[list(replaceable(judge.program))] = True
    return judge.seconds({m: least_latency(judge.program, judge.target, m, ~replaced) for m in judge.models})


def _follow(judge: Judge, placement: Placement, values: np.ndarray, result: Bound, report: Report) -> None:
    """Makes mappings from a solution and keeps the best one."""
    program, target = judge.program, judge.target
    for mapping in chain(
        constructed(judge, placement, values), repaired(program, target, choice_of(placement, values))
    ):
        latency = judge.judge(mapping)
        result.found_s = latency if result.found_s is None else min(result.found_s, latency)
        if latency < result.mapping_s:
            result.mapping, result.mapping_s = mapping, latency
            report("mappings", result)
