"""Bounds the latency of every mapping of a program from below, and keeps the best mapping found on the way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from ..errors import UserError
from ..physics.objective import Judge, make_judge
from ..program.mapping import COPY_FIELDS, CROSS_PROGRAM, Mapping
from ..program.program import Program, all_hbm
from ..program.target import Target
from ..verifier.verify import verify
from .construct import constructed
from .deadline import Deadline, TimeIsUp
from .placement import Placement, Rules
from .relaxation import SCOPES, build_relaxation
from .repair import choice_of, repaired
from .solve import Stop, is_hopeless, solve_integer, solve_relaxation
from .timing import least_latency
from .touches import replaceable

# Part of the key of stored results: raise it when the meaning of bounds changes. For tighter bounds of the same
# meaning, run `python -m benchmarks.bounds.measure --again`.
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
      scope: the mappings that the bound covers: `legal` for all that verify, `unreplaced` for mappings in which no copy
        replaces an instruction, `game` for mappings that the game can play.
      floor_s: latency with every instruction at its fastest and copies free. No bound if copies may replace
        instructions.
      relaxation_s: bound from the linear relaxation, certified; None before it is solved.
      integer_s: bound from the mixed-integer program; None if it was not tried or found none.
      bound_s: the best of the bounds.
      mapping: the best mapping found that the bound covers, XLA's own (with any of the flags) included; it verifies.
      mapping_s: its seconds.
      found_s: seconds of the best mapping made from a solution; None if none was made.
      production_s: seconds of XLA's own mapping, or None.
      optimal: the mixed-integer program was solved to the end.
      stopped: Ctrl-C or `stop` ended the work.
      cut_short: that or the time limit ended the work before the bound was as good as it can get.
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
    cut_short: bool = False
    seconds: float = 0.0
    size: tuple[int, int, int] = (0, 0, 0)

    @property
    def gap(self) -> float:
        """The most that another mapping can save, as a share of the best mapping found."""
        return 1.0 - self.bound_s / self.mapping_s if self.mapping_s > 0 else 0.0

    @property
    def proved(self) -> bool:
        """True if the bound proves the best mapping found to be optimal, to within `PROVED_GAP`."""
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
    stop: Stop | None = None,
) -> Bound:
    """Bounds the latency of every mapping of a program from below, and looks for mappings near the bound.

    Args:
      program: the program.
      objective: `robust`, `msa` or `cycles`; None for `robust` where `cycles` can price the program, else `msa`.
      seconds: time limit. The linear relaxation comes first; integer solutions get the rest. Where the limit is short
        for the program, more buffers are left out, and a relaxation that cannot be solved within it is not tried: the
        bound then comes from single instructions, and the mapping is the best known one, as for programs with
        conditionals. The mapping is everything in HBM if there was no time to verify another. Only pricing the program
        once has no limit.
      scope: one of `SCOPES`: the mappings that the bound covers.
      target: the hardware; None for the program's own.
      report: called with the name of a stage and the bound so far.
      left_out_share: buffers that together save less than this share of the all-in-HBM latency count as fast at no
        cost; None for 1e-4 to 1e-3, the more the larger the program.
      most_capacity_rows: most instructions at which the resident buffers have to fit.
      integer: go on to the mixed-integer program.
      stop: asked often; True ends the work with what has been found, as Ctrl-C does. Nothing ends pricing the program.

    Raises:
      UserError: the objective or scope is not known, or the objective needs a cycle table that the program lacks.
      KeyboardInterrupt: Ctrl-C while the program was priced, before anything was known.
    """
    if scope not in SCOPES:
        raise UserError(f"scope {scope!r} is not known; choose one of {', '.join(SCOPES)}")
    if not seconds > 0:
        raise UserError(f"a bound needs time: {seconds:g} seconds are too few")
    deadline = Deadline(seconds, stop)
    judge = make_judge(program, objective, target)
    nothing = all_hbm(program)
    all_hbm_s = judge.judge(nothing)
    result = Bound(judge.objective, scope, judge.floor_s(), judge.production_s, nothing, all_hbm_s)
    if not all_hbm_s > 0:
        return result
    result.bound_s = _least(judge) * (1.0 - _ROUNDING)
    try:
        if target is None:
            _take_known(judge, result, SCOPES[scope], deadline)
        if program.conditional is None:
            _improve(judge, result, scope, left_out_share, most_capacity_rows, integer, deadline, report)
    except TimeIsUp:
        result.cut_short = True
    except KeyboardInterrupt:
        result.stopped = True
    result.stopped |= deadline.stopped
    result.cut_short |= result.stopped or deadline.passed()
    result.cut_short &= not (result.optimal or result.proved)
    result.seconds = deadline.spent
    report("done", result)
    return result


def _allows(rules: Rules, mapping: Mapping) -> bool:
    """Returns whether a mapping is one that the bound covers."""
    direction, replaces = (mapping.copies[:, COPY_FIELDS.index(field)] for field in ("direction", "replaces"))
    if not rules.replacements and (replaces >= 0).any():
        return False
    most = rules.most_cross_program
    return most is None or np.count_nonzero(direction == CROSS_PROGRAM) <= most


def _take_known(judge: Judge, result: Bound, rules: Rules, deadline: Deadline) -> None:
    """Takes the best of XLA's own mappings, with any of the flags, that verifies and that the bound covers.

    Raises:
      TimeIsUp: the limit has passed before one is verified.
    """
    program = judge.program
    known = [program.production, *(variant.mapping for variant in program.variants)]
    judged = [(judge.judge(mapping), mapping) for mapping in known if mapping is not None and _allows(rules, mapping)]
    for mapping_s, mapping in sorted(judged, key=lambda pair: pair[0]):
        if mapping_s < result.mapping_s and not verify(program, judge.target, mapping, deadline.check):
            result.mapping, result.mapping_s = mapping, mapping_s


def _improve(
    judge: Judge,
    result: Bound,
    scope: str,
    left_out_share: float | None,
    most_capacity_rows: int,
    integer: bool,
    deadline: Deadline,
    report: Report,
) -> None:
    """Improves the bound and its mapping by relaxations, as far as time allows; arguments as for `bound`.

    Raises:
      TimeIsUp: a relaxation cannot be built and solved before the limit.
    """
    all_hbm_s = judge.judge(all_hbm(judge.program))

    def proved_at_least(value: float, unit_s: float) -> float:
        # Upper bounds of columns cut off solutions worse than everything in HBM.
        return min(value * unit_s * (1.0 - _ROUNDING), all_hbm_s)

    linear, placement, unit_s = build_relaxation(judge, SCOPES[scope], left_out_share, most_capacity_rows, deadline)
    result.size = len(linear.cost), len(linear.row_low), sum(linear.integer)
    if is_hopeless(linear, deadline.left):
        raise TimeIsUp
    report("relaxation", result)
    solved = solve_relaxation(linear, deadline.left, deadline.passed, leave=True)
    if np.isfinite(solved.bound):
        result.relaxation_s = proved_at_least(solved.bound, unit_s)
        result.bound_s = max(result.bound_s, result.relaxation_s)
    result.cut_short |= not solved.optimal
    if solved.stopped:
        result.stopped = True
        raise TimeIsUp
    report("mappings", result)
    if solved.values is not None:
        _follow(judge, SCOPES[scope], placement, solved.values, result, deadline, report)
    result.seconds = deadline.spent
    if not integer or result.proved:
        return
    if deadline.left <= max(1.0, solved.seconds):
        raise TimeIsUp
    report("integer", result)

    def progress(dual: float, best: float) -> None:
        if np.isfinite(dual):
            value = proved_at_least(dual * (1.0 - 1e-5), unit_s)
            result.integer_s = max(result.integer_s or 0.0, value)
            result.bound_s = max(result.bound_s, result.integer_s)
        result.seconds = deadline.spent
        report("integer", result)

    mixed = solve_integer(linear, deadline.left, progress, stop=deadline.passed, leave=True)
    result.optimal, result.stopped = mixed.optimal, mixed.stopped
    result.cut_short |= not mixed.optimal
    if np.isfinite(mixed.bound):
        result.integer_s = max(result.integer_s or 0.0, proved_at_least(mixed.bound, unit_s))
        result.bound_s = max(result.bound_s, result.integer_s)
    if mixed.values is None or mixed.stopped:
        return
    _follow(judge, SCOPES[scope], placement, mixed.values, result, deadline, report)
    if not (result.proved or deadline.passed()):
        # Constructed mappings keep whole buffers, and so lose most of a solution that keeps parts.
        report("mappings", result)
        rules = replace(SCOPES[scope], whole=True)
        linear, placement, _ = build_relaxation(judge, rules, left_out_share, most_capacity_rows, deadline)
        mixed = solve_integer(
            linear, min(deadline.left, max(1.0, 2.0 * mixed.seconds)), stop=deadline.passed, leave=True
        )
        result.stopped = mixed.stopped
        if mixed.values is not None and not mixed.stopped:
            _follow(judge, SCOPES[scope], placement, mixed.values, result, deadline, report)


def _least(judge: Judge) -> float:
    """Returns a bound without a solver: the floor of the instructions that no copy may replace."""
    replaced = np.zeros(judge.program.num_instructions, bool)
    replaced[list(replaceable(judge.program))] = True
    return judge.seconds({m: least_latency(judge.program, judge.target, m, ~replaced) for m in judge.models})


def _follow(
    judge: Judge,
    rules: Rules,
    placement: Placement,
    values: np.ndarray,
    result: Bound,
    deadline: Deadline,
    report: Report,
) -> None:
    """Makes mappings from a solution, while there is time, and keeps the best one that the bound covers."""
    program, target = judge.program, judge.target
    for mapping in chain(  # the faster way first
        repaired(program, target, choice_of(placement, values), deadline),
        constructed(judge, placement, values, deadline=deadline),
    ):
        if not _allows(rules, mapping):  # buffers that stay throughout are prefetched across programs
            continue
        latency = judge.judge(mapping)
        result.found_s = latency if result.found_s is None else min(result.found_s, latency)
        if latency < result.mapping_s:
            result.mapping, result.mapping_s = mapping, latency
            report("mappings", result)
