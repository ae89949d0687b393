"""The two rounds of `tune`: a first search whose best options the compiler prices, and the search that decides."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ..env.capture.compiler import CODE
from ..env.physics.cost import MSA
from ..env.physics.objective import make_judge
from ..env.program.program import Program
from .candidates import grid_candidates, translated_candidates
from .confirm import Attempt, Confirmation, confirm, scout
from .kept_time import FIRST_SEARCH, Answers, affords_scout, to_the_end_s, until_assignment_s
from .real_compiler import RealCompiler
from .searcher import Found, Searcher

CANDIDATES = 4


@dataclass(frozen=True, eq=False)
class Rounds:
    """What both rounds share: who searches, who judges, and the time.

    Attributes:
      searcher: searches options without the compiler.
      compiler: judges them.
      longest_s: the longest compilations of the capture, in seconds, by how far they went.
      kept: seconds kept for the compiler's answers.
      until: when all is over, by `clock`.
      progress: takes one line at a time.
      clock: returns seconds.
      seconds: wall time by step, see `Tuned.seconds`; the rounds add to it.
    """

    searcher: Searcher
    compiler: RealCompiler
    longest_s: dict[str, float]
    kept: Answers
    until: float
    progress: Callable[[str], None] = print
    clock: Callable[[], float] = time.monotonic
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def _search_s(self) -> float:
        return self.until - self.clock() - self.kept.all_s

    def scout(self, program: Program, seed: int) -> tuple[Program, list[Attempt]]:
        """Searches briefly, and compiles the best options to the end for their cycles.

        Returns:
          The program with these cycles in its table, and the attempts; the program as it was and no attempt if there is
          no time for two rounds, or if `msa` alone decides.
        """
        search_s = self._search_s
        if self.searcher.objective == MSA or not affords_scout(self.longest_s, search_s):
            return program, []
        found = self.searcher.find(program, FIRST_SEARCH * (search_s - to_the_end_s(self.longest_s)), seed)
        self._add(found.seconds)
        begin = self.clock()
        candidates = translated_candidates(found.translations, 1)
        if candidates:
            self.progress("compiling the best options so far to the end, for their cycles")
        left_s = max(1.0, self.until - self.clock() - self.kept.all_s)
        program, attempts = scout(program, candidates, self.compiler, time_left_s=left_s, progress=self.progress)
        self.seconds["scout"] = self.clock() - begin
        return program, attempts

    def decide(self, program: Program, seed: int, earlier: list[Attempt]) -> tuple[Found, Confirmation]:
        """Searches for the rest of the time, and asks the compiler about the best options.

        Args:
          program: the program, with the cycles of the first round.
          seed: of the search.
          earlier: the attempts of the first round, which count too.
        """
        found = self.searcher.find(program, max(0.0, self._search_s), seed)
        self._add(found.seconds)
        judge = make_judge(program, self.searcher.objective)
        begin = self.clock()
        confirmation = confirm(
            program,
            self.searcher.objective,
            [*translated_candidates(found.translations, CANDIDATES), *grid_candidates(judge)],
            self.compiler,
            # The capture's compilation did not end in time either.
            quick=CODE not in self.longest_s,
            just_captured=True,
            time_left_s=lambda: self.until - self.clock(),
            reserve_s=self.kept.to_the_end_s,
            candidate_s=until_assignment_s(self.longest_s),
            all_to_the_end=True,
            earlier=earlier,
            progress=self.progress,
        )
        self.seconds["confirm"] = self.clock() - begin
        self.seconds["candidates"] = confirmation.candidates_s
        self.seconds["to_the_end"] = confirmation.to_the_end_s
        return found, confirmation

    def _add(self, more: dict[str, float]) -> None:
        for step, spent_s in more.items():
            self.seconds[step] = self.seconds.get(step, 0.0) + spent_s
