"""Sets of options are judged by the real compiler, one after another, and the best confirmed one is kept.

The compiler is asked twice: about each candidate until memory is assigned, which takes seconds; then about the best to
the end, which tells the cycles of its placement exactly. A candidate that is refused, dropped, too slow or crashes the
compiler is told and left out; where none is better than the compiler's default, the default stays.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..env.errors import UserError
from ..env.physics.objective import Judge, make_judge
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from .compile import Imposed, Imposer
from .translate import DEFAULT, Translation

# A candidate counts as better than the default by this share at least: less is noise of rounded bytes.
_LEAST_GAIN = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """Options to be judged.

    Attributes:
      kind: what they are, for people.
      options: beside those of the capture.
      foreseen: what our own decoder makes of them, or None.
    """

    kind: str
    options: Mapping[str, str]
    foreseen: ProgramMapping | None = None


@dataclass(eq=False)
class Attempt:
    """What became of a candidate.

    Attributes:
      candidate: it.
      imposed: what the compiler made of it; None where it did not.
      error: why not, in one line.
      exact: compiled to the end, so that its cycles are all the compiler's own.
    """

    candidate: Candidate
    imposed: Imposed | None = None
    error: str | None = None
    exact: bool = False


@dataclass(eq=False)
class Confirmation:
    """What was kept.

    Attributes:
      program: with the cycles that all compilations showed.
      default: what the compiler makes of no options.
      attempts: in the order of the candidates.
      kept: the best that is better than the default; None where there is none.
    """

    program: Program
    default: ProgramMapping
    attempts: list[Attempt] = field(default_factory=list)
    kept: Attempt | None = None

    @property
    def options(self) -> dict[str, str]:
        """The options to use, beside those of the capture; none for the default."""
        return {} if self.kept is None else dict(self.kept.candidate.options)

    @property
    def mapping(self) -> ProgramMapping:
        """What the compiler makes of them."""
        return self.default if self.kept is None or self.kept.imposed is None else self.kept.imposed.mapping


def confirm(
    program: Program,
    objective: str | None,
    candidates: Sequence[Candidate],
    compiler: Imposer,
    *,
    quick: bool = False,
    just_captured: bool = False,
    time_left_s: Callable[[], float] = lambda: math.inf,
    progress: Callable[[str], None] = print,
) -> Confirmation:
    """Has the real compiler judge candidates.

    Args:
      program: the program, with its production mapping.
      objective: what decides which is best; see `make_judge`.
      candidates: best foreseen first.
      compiler: of the program.
      quick: compile none to the end, so that cycles are those of the program's table.
      just_captured: the program's production mapping is what this compiler makes of no options, and need not be asked.
      time_left_s: seconds that are left; a compilation that probably takes longer is not begun, one that does is ended.
      progress: takes one line at a time.

    Raises:
      UserError: the compiler does not even compile the program as it was captured.
      FormatError: its output is not what capture understands.
    """
    assert program.production is not None
    result = Confirmation(program, program.production)
    if not just_captured:
        result.default = compiler.impose(program, {}, quick=True).mapping
        judge = make_judge(program, objective)
        if judge.judge(result.default) != judge.judge(program.production):
            progress("XLA's default is another mapping than when the program was captured; gains are over that of now")
            result.program = replace(program, production=result.default)
    takes_s = 0.0
    for candidate in candidates:
        if time_left_s() <= takes_s:
            progress(f"no time for {candidate.kind}")
            result.attempts.append(Attempt(candidate, error="no time was left"))
            continue
        before_s = time_left_s()
        limit_s = before_s if math.isfinite(before_s) else None
        result.attempts.append(_asked(result.program, candidate, compiler, True, limit_s, progress))
        if limit_s is not None:
            takes_s = max(takes_s, before_s - time_left_s())
    _keep_best(result, objective, compiler, quick, time_left_s, progress)
    return result


def _keep_best(
    result: Confirmation,
    objective: str | None,
    compiler: Imposer,
    quick: bool,
    time_left_s: Callable[[], float],
    progress: Callable[[str], None],
) -> None:
    """Keeps the best attempt, compiled to the end unless `quick`; the next best where that shows that it is none."""
    while True:
        judge = make_judge(result.program, objective)
        better = [attempt for attempt in result.attempts if _gain(judge, result.default, attempt) > _LEAST_GAIN]
        if not better:
            progress("no options are better than XLA's default, which stays")
            return
        best = max(better, key=lambda attempt: _gain(judge, result.default, attempt))
        if best.exact or quick:
            result.kept = best
            return
        limit_s = time_left_s()
        again, said = Attempt(best.candidate), list[str]()
        if limit_s > 0:
            limited = limit_s if math.isfinite(limit_s) else None
            again = _asked(result.program, best.candidate, compiler, False, limited, said.append)
        if again.imposed is None and time_left_s() <= 0:
            progress(f"no time to compile {best.candidate.kind} to the end: its cycles are of the program's table")
            result.kept = best
            return
        for line in said:
            progress(line)
        best.imposed, best.error, best.exact = again.imposed, again.error, True
        if again.imposed is not None:
            result.program = again.imposed.program


def _asked(
    program: Program,
    candidate: Candidate,
    compiler: Imposer,
    quick: bool,
    time_limit_s: float | None,
    progress: Callable[[str], None],
) -> Attempt:
    """Asks the compiler; a failure is told and kept."""
    try:
        return Attempt(candidate, compiler.impose(program, candidate.options, quick, time_limit_s))
    except UserError as error:
        progress(f"{candidate.kind} is left out: {error}")
        return Attempt(candidate, error=str(error))


def _gain(judge: Judge, default: ProgramMapping, attempt: Attempt) -> float:
    """Returns the gain over the default as the judge sees it, as a share."""
    if attempt.imposed is None:
        return -1.0
    return 1.0 - judge.judge(attempt.imposed.mapping) / judge.judge(default)


def candidates_of(translations: Sequence[Translation]) -> list[Candidate]:
    """Returns what is foreseen to be better than the compiler's default, best first, each placement once."""
    (default_s,) = [found.judged_s for found in translations if found.kind == DEFAULT]
    candidates: list[Candidate] = []
    for found in translations:
        seen = [other.foreseen for other in candidates if other.foreseen is not None]
        if found.judged_s < default_s and not any(_alike(found.mapping, other) for other in seen):
            candidates.append(Candidate(found.kind, found.options, found.mapping))
    return candidates


def _alike(one: ProgramMapping, other: ProgramMapping) -> bool:
    return (
        np.array_equal(one.access_fast, other.access_fast)
        and np.array_equal(one.residencies, other.residencies)
        and np.array_equal(one.copies, other.copies)
    )
