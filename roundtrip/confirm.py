"""Has the real compiler judge candidates, and keeps the best that it confirms.

Each candidate is compiled until memory is assigned, which takes seconds. The best one is then compiled to the end,
which yields the exact cycles of its placement. If time is short, the compilation to the end comes before further
candidates. Where cycles count, no candidate is kept unless the compiler has reported its cycles. A candidate that is
refused, dropped, too slow, or crashes the compiler is reported and left out. If none is better than the compiler's
default, the default stays.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..env.capture.compiler import TimeLimitError
from ..env.errors import UserError
from ..env.physics.cost import MSA
from ..env.physics.objective import Judge, make_judge
from ..env.program.mapping import Mapping
from ..env.program.program import Program
from .candidates import Candidate
from .comparison import cycles_are_told
from .kept_time import is_to_the_end_at_once
from .real_compiler import Compiled, RealCompiler

# The smallest gain over the default that counts, as a share; less is noise from rounded bytes.
_LEAST_GAIN = 1e-6
# Gains that differ by less, as a share, count as equal; the mean of both cost models then decides.
_ALIKE = 1e-4
# The error of a candidate that the compiler was not asked about.
NO_TIME = "no time was left"


@dataclass(eq=False)
class Attempt:
    """One candidate and the compiler's answer.

    Attributes:
      candidate: the candidate.
      compiled: the compilation; None if it failed.
      error: the failure in one line, or None.
      exact: whether it was compiled to the end, so that all cycles are the compiler's own.
    """

    candidate: Candidate
    compiled: Compiled | None = None
    error: str | None = None
    exact: bool = False


@dataclass(eq=False)
class Confirmation:
    """All attempts, and the one that was kept.

    Attributes:
      program: the program; its cycle table has the pairs of all compilations.
      default: the mapping that the compiler makes without options.
      attempts: in the order of the candidates.
      kept: the best attempt that is better than the default; None if there is none.
      untold: the attempt that seemed best when time ran out, but whose cycles the compiler had not reported; None if
        there was time.
      candidates_s, to_the_end_s: wall seconds of the compilations until memory is assigned, and of those to the end.
    """

    program: Program
    default: Mapping
    attempts: list[Attempt] = field(default_factory=list)
    kept: Attempt | None = None
    untold: Attempt | None = None
    candidates_s: float = 0.0
    to_the_end_s: float = 0.0

    @property
    def options(self) -> dict[str, str]:
        """The options to use, beside those of the capture; none for the default."""
        return {} if self.kept is None else dict(self.kept.candidate.options)

    @property
    def mapping(self) -> Mapping:
        """The mapping that the compiler makes with `options`."""
        return self.default if self.kept is None or self.kept.compiled is None else self.kept.compiled.mapping


def confirm(
    program: Program,
    objective: str | None,
    candidates: Sequence[Candidate],
    compiler: RealCompiler,
    *,
    quick: bool = False,
    just_captured: bool = False,
    time_left_s: Callable[[], float] = lambda: math.inf,
    reserve_s: float = 0.0,
    candidate_s: float = 0.0,
    all_to_the_end: bool = False,
    earlier: Sequence[Attempt] = (),
    progress: Callable[[str], None] = print,
) -> Confirmation:
    """Has the real compiler judge candidates.

    Args:
      program: the program, with its production mapping.
      objective: the objective that decides which is best; see `make_judge`.
      candidates: best foreseen first.
      compiler: the program's compiler.
      quick: compile no candidate to the end; cycles are then those of the program's table.
      just_captured: the production mapping is this compiler's default, so the default is not compiled again, and a
        candidate whose mapping was captured is compiled only once it is the best.
      time_left_s: returns the seconds that are left. A compilation that would probably take longer is not begun, and
        one that does take longer is ended.
      reserve_s: seconds kept for the compilation to the end, once a first candidate has compiled.
      candidate_s: seconds that a candidate will probably take until memory is assigned. If time is short, the first is
        compiled to the end at once; see `is_to_the_end_at_once`.
      all_to_the_end: where cycles count, compile the other candidates to the end too while there is time. Estimates of
        cycles err on the pessimistic side, so one of these candidates may be better than it seems.
      earlier: earlier attempts, whose cycles are in the table of `program` (`scout`). One is kept if no candidate is
        better, and candidates with the same options are not compiled again.
      progress: takes one line at a time.

    Raises:
      UserError: the compiler cannot compile even the program as captured.
      FormatError: capture does not understand the compiler's output.
    """
    assert program.production is not None
    result = Confirmation(program, program.production)
    if not just_captured:
        result.default = compiler.compile(program, {}, quick=True).mapping
        judge = make_judge(program, objective)
        if judge.judge(result.default) != judge.judge(program.production):
            progress("XLA's default is another mapping than when the program was captured; gains are over that of now")
            result.program = replace(program, production=result.default)
    begin, takes_s, kept_s = time.monotonic(), 0.0, 0.0
    result.attempts.extend(earlier)
    known = [attempt.candidate.options for attempt in earlier]
    for candidate in candidates:
        if candidate.options in known:
            continue
        if just_captured and candidate.captured:
            result.attempts.append(Attempt(candidate, _captured(result.program, candidate)))
            continue
        before_s = time_left_s() - kept_s
        if before_s <= takes_s:
            progress(f"no time for {candidate.kind}")
            result.attempts.append(Attempt(candidate, error=NO_TIME))
            continue
        limit_s = before_s if math.isfinite(before_s) else None
        at_once = not quick and not kept_s and reserve_s > 0.0
        at_once = at_once and is_to_the_end_at_once(before_s, candidate_s, reserve_s)
        attempt = _attempt(
            result.program, candidate, compiler, quick=not at_once, time_limit_s=limit_s, progress=progress
        )
        result.attempts.append(attempt)
        if at_once and attempt.compiled is not None:
            attempt.exact = True
            result.program = attempt.compiled.program
        if limit_s is not None:
            takes_s = max(takes_s, before_s - (time_left_s() - kept_s))
        if attempt.compiled is not None and not quick:
            kept_s = reserve_s
    result.candidates_s = time.monotonic() - begin
    _keep_best(result, objective, compiler, quick=quick, time_left_s=time_left_s, progress=progress)
    if all_to_the_end and result.kept is not None and result.kept.exact:
        # No compilation to the end took longer.
        one_s = max(reserve_s, time.monotonic() - begin - result.candidates_s)
        _try_the_others(result, objective, compiler, one_s=one_s, time_left_s=time_left_s, progress=progress)
    result.to_the_end_s = time.monotonic() - begin - result.candidates_s
    return result


def scout(
    program: Program,
    candidates: Sequence[Candidate],
    compiler: RealCompiler,
    *,
    time_left_s: float = math.inf,
    progress: Callable[[str], None] = print,
) -> tuple[Program, list[Attempt]]:
    """Compiles the first candidate to the end, for the cycles of a placement like those that a search prefers.

    Cycles that no compilation has reported are completed (`env/physics/cycles.py`), and a search finds the errors of
    the completion.

    Returns:
      The program with the reported cycles, and the attempt, for `earlier` of `confirm`; no attempt without a candidate.
    """
    tried = [_to_the_end(program, candidate, compiler, time_left_s, progress) for candidate in candidates[:1]]
    told = [attempt.compiled.program for attempt in tried if attempt.compiled is not None]
    return (told[0] if told else program), tried


def _captured(program: Program, candidate: Candidate) -> Compiled:
    """Returns the compilation of a candidate that was made when the program was captured."""
    assert candidate.foreseen is not None
    return Compiled(
        program=program,
        mapping=candidate.foreseen,
        printed_s=None,
        new_pairs=0,
        versions={},
        cpu_s=0.0,
        inexpressible={},
    )


def _keep_best(
    result: Confirmation,
    objective: str | None,
    compiler: RealCompiler,
    *,
    quick: bool,
    time_left_s: Callable[[], float],
    progress: Callable[[str], None],
) -> None:
    """Keeps the best attempt, compiled to the end unless `quick`; the next best if its exact cycles make it worse."""
    while True:
        judge = make_judge(result.program, objective)
        gain = {id(one): _gain(judge, result.default, one) for one in result.attempts}
        best = _best(result.attempts, gain, judge, result.default)
        if best is None or gain[id(best)] <= _LEAST_GAIN:
            progress("no options are better than XLA's default, which stays")
            return
        if best.exact or quick:
            result.kept = best
            return
        limit_s = time_left_s()
        again, said = Attempt(best.candidate), list[str]()
        if limit_s > 0:
            again = _to_the_end(result.program, best.candidate, compiler, limit_s, said.append)
        if again.compiled is None and time_left_s() <= 0:
            _keep_what_is_told(result, judge, best, progress)
            return
        for line in said:
            progress(line)
        best.compiled, best.error, best.exact = again.compiled, again.error, True
        if again.compiled is not None:
            result.program = again.compiled.program


def _try_the_others(
    result: Confirmation,
    objective: str | None,
    compiler: RealCompiler,
    *,
    one_s: float,
    time_left_s: Callable[[], float],
    progress: Callable[[str], None],
) -> None:
    """Compiles the other attempts to the end, the best first, while `one_s` seconds are left; keeps the best of all."""
    judge = make_judge(result.program, objective)
    others = [
        attempt
        for attempt in result.attempts
        if attempt.compiled is not None and not _is_told(result.program, judge, attempt)
    ]
    for attempt in sorted(others, key=lambda attempt: -_gain(judge, result.default, attempt)):
        left_s = time_left_s()
        if left_s <= one_s:
            break
        again = _to_the_end(result.program, attempt.candidate, compiler, left_s, progress)
        if again.compiled is not None:
            attempt.compiled, attempt.exact = again.compiled, True
            result.program = again.compiled.program
    judge = make_judge(result.program, objective)
    exact = [attempt for attempt in result.attempts if attempt.exact]
    result.kept = _best(exact, {id(one): _gain(judge, result.default, one) for one in exact}, judge, result.default)


def _keep_what_is_told(result: Confirmation, judge: Judge, best: Attempt, progress: Callable[[str], None]) -> None:
    """Keeps the best attempt that can be judged without another compilation; for `best` there was no time for one."""
    kind = best.candidate.kind
    gain = {id(one): _gain(judge, result.default, one) for one in result.attempts}
    told = [
        attempt
        for attempt in result.attempts
        if gain[id(attempt)] > _LEAST_GAIN and _is_told(result.program, judge, attempt)
    ]
    result.kept = _best(told, gain, judge, result.default)
    if result.kept is best:
        progress(f"no time to compile {kind} to the end: its cycles are of the program's table")
        return
    result.untold = best
    instead = "XLA's default stays" if result.kept is None else f"{result.kept.candidate.kind} is kept instead"
    progress(f"no time to compile {kind} to the end, so that its cycles are not known: {instead}")


def _best(attempts: Sequence[Attempt], gain: dict[int, float], judge: Judge, default: Mapping) -> Attempt | None:
    """Returns the attempt that gains most; of attempts that gain equally, the best by the mean of the cost models."""
    most = max((gain[id(attempt)] for attempt in attempts), default=-1.0)
    before = judge.latencies(default)

    def mean_ratio(attempt: Attempt) -> float:
        if attempt.compiled is None:
            return math.inf
        after = judge.latencies(attempt.compiled.mapping)
        return sum(after[model] / before[model] for model in after)

    alike = [attempt for attempt in attempts if gain[id(attempt)] >= most - _ALIKE]
    return min(alike, key=mean_ratio, default=None)


def _is_told(program: Program, judge: Judge, attempt: Attempt) -> bool:
    """Returns whether the compiler has reported all cycles of an attempt, if they count at all."""
    if attempt.exact or judge.objective == MSA:
        return True
    assert attempt.compiled is not None
    return cycles_are_told(program, attempt.compiled.mapping)


def _to_the_end(
    program: Program,
    candidate: Candidate,
    compiler: RealCompiler,
    time_left_s: float,
    progress: Callable[[str], None],
) -> Attempt:
    """Compiles a candidate to the end, within the seconds that are left, if they are finite."""
    limit_s = time_left_s if math.isfinite(time_left_s) else None
    attempt = _attempt(program, candidate, compiler, quick=False, time_limit_s=limit_s, progress=progress)
    attempt.exact = attempt.compiled is not None
    return attempt


def _attempt(
    program: Program,
    candidate: Candidate,
    compiler: RealCompiler,
    *,
    quick: bool,
    time_limit_s: float | None,
    progress: Callable[[str], None],
) -> Attempt:
    """Compiles a candidate; a failure is reported and kept in the attempt."""
    try:
        return Attempt(candidate, compiler.compile(program, candidate.options, quick=quick, time_limit_s=time_limit_s))
    except TimeLimitError as error:
        said = str(error) if time_limit_s is None else f"the compilation was ended after {time_limit_s:.0f} s, for time"
        progress(f"{candidate.kind} is left out: {said}")
        return Attempt(candidate, error=said)
    except UserError as error:
        progress(f"{candidate.kind} is left out: {error}")
        return Attempt(candidate, error=str(error))


def _gain(judge: Judge, default: Mapping, attempt: Attempt) -> float:
    """Returns the gain over the default under the judge's objective, as a share; -1 if the compilation failed."""
    if attempt.compiled is None:
        return -1.0
    return 1.0 - judge.judge(attempt.compiled.mapping) / judge.judge(default)
