"""The differences between two mappings of a program, and the worth of each alone: one is put back, the rest stay.

The worth is exact for the game that follows the mapping: the whole game is played again with one difference put back to
the other mapping's choice, and judged. Where memory then runs short, the game makes room, and that counts too. The
worth of several differences together is not the sum of their worths.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.game import kernels
from ...env.game.game import MallocGame
from ...env.game.holding import per_pass_of
from ...env.game.moves import COPY, NO_COPY
from ...env.game.outcome import make_scoring
from ...env.game.plan import TO_THE_END, play_until
from ...env.physics.cost import CYCLES, MSA
from ...env.program.mapping import Mapping
from ...env.program.program import RESULT, Program
from ...solvers.common.follow import PATIENCE, follow_best, hints_of_mapping, preferences_of_mapping

# Gains below this share of the latency are rounding.
_NEUTRAL = 1e-9


@dataclass(frozen=True, eq=False)
class Difference:
    """Consecutive accesses of one buffer that only one of two mappings serves from fast memory.

    Attributes:
      buffer: the buffer.
      accesses: `[K]` the accesses, ascending.
      first, last: instructions of the first and the last of them.
      fast: the first mapping serves them from fast memory, the other one from HBM; False for the reverse.
    """

    buffer: int
    accesses: NDArray[np.int64]
    first: int
    last: int
    fast: bool


@dataclass(frozen=True)
class Worth:
    """The worth of one difference, with the rest unchanged.

    Attributes:
      difference: number of the difference.
      share: judged seconds that putting it back costs, as a share of the other mapping's; negative where that is
        better. None if the game cannot put it back alone.
      model_s: seconds that it costs by cost model.
    """

    difference: int
    share: float | None
    model_s: dict[str, float]


@dataclass(frozen=True)
class Comparison:
    """Two mappings compared.

    Attributes:
      differences: all of them, in program order.
      worths: of the differences that were tried, the most costly first; those that cannot be put back alone come last.
      replayed_s: judged seconds of the game that follows the mapping.
      mapping_s: judged seconds of the mapping itself.
    """

    differences: list[Difference]
    worths: list[Worth]
    replayed_s: float
    mapping_s: float


def find_differences(program: Program, mapping: Mapping, other: Mapping) -> list[Difference]:
    """Returns the runs of accesses of one buffer that only one of the mappings serves from fast memory."""
    order = np.argsort(program.access_buffer, kind="stable")
    sign = np.where(mapping.access_fast == other.access_fast, 0, np.where(mapping.access_fast, 1, -1))[order]
    owner = program.access_buffer[order]
    starts = np.flatnonzero(np.diff(owner, prepend=-1) | np.diff(sign, prepend=2))
    found = []
    for low, high in zip(starts, np.append(starts[1:], len(order)), strict=True):
        if sign[low]:
            rows = order[low:high]
            steps = program.access_instruction[rows]
            found.append(Difference(int(owner[low]), rows, int(steps[0]), int(steps[-1]), bool(sign[low] > 0)))
    return sorted(found, key=lambda difference: (difference.first, difference.buffer))


def compare(
    program: Program,
    mapping: Mapping,
    other: Mapping,
    objective: str,
    most: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Comparison:
    """Finds the differences between two mappings, and tries `most` of them, the most promising, each alone.

    Args:
      program: the program.
      mapping: the mapping in question.
      other: the mapping whose choices are put back, one at a time.
      objective: what mappings are judged by.
      most: number of differences to try.
      progress: called with the number of differences tried so far, and the total.
    """
    differences = find_differences(program, mapping, other)
    player = _Player(program, mapping, objective)
    benefit = player.game.tables.access["benefit"]
    promise = [float(benefit[difference.accesses].sum()) for difference in differences]
    tried = np.argsort([-seconds for seconds in promise], kind="stable")[:most].tolist()
    theirs, hints = preferences_of_mapping(program, other), hints_of_mapping(program, other)
    other_s = player.game.judge.judge(other)
    worths = []
    for done, number in enumerate(tried):
        difference = differences[number]
        latencies = player.put_back(difference, theirs, hints)
        if latencies is None:
            worths.append(Worth(number, None, {}))
        else:
            cost_s = player.seconds(latencies) - player.seconds(player.base)
            share = cost_s / other_s if abs(cost_s) > _NEUTRAL * other_s else 0.0
            worths.append(Worth(number, share, {model: latencies[model] - s for model, s in player.base.items()}))
        progress(done + 1, len(tried))
    worths.sort(key=lambda worth: (worth.share is None, -(worth.share or 0.0), worth.difference))
    return Comparison(differences, worths, player.seconds(player.base), player.game.judge.judge(mapping))


class _Player:
    """Plays the game that follows a mapping, with other choices at some accesses.

    Attributes:
      game: the game.
      base: seconds of the game that follows the mapping, by cost model.
    """

    def __init__(self, program: Program, mapping: Mapping, objective: str) -> None:
        # Nothing is trivial: a plan would leave it in HBM.
        self.game = MallocGame(
            program,
            None,
            objective,
            trivial_share=0.0,
            patience=PATIENCE,
            hints=hints_of_mapping(program, mapping),
            per_pass=per_pass_of(program, mapping),
        )
        follow_best(self.game, mapping)
        self._program = program
        self._preferences = preferences_of_mapping(program, mapping)
        self._hints = self.game.tables.hints()
        self._moves = np.zeros(program.num_accesses, np.int8)
        # By one cost model alone, the outcome of a game is its seconds by that model.
        self._scorings = {}
        for model in self.game.judge.models:
            scoring = self._scorings[model] = make_scoring(self.game.judge)
            scoring.objective.msa_s, scoring.objective.cycles_s = (float(model == each) for each in (MSA, CYCLES))
            scoring.objective.unit_s = 1.0
        self.base = self._play(self._preferences)

    def seconds(self, latencies: dict[str, float]) -> float:
        """Returns the judged seconds of latencies by cost model."""
        return self.game.judge.seconds(latencies)

    def put_back(
        self, difference: Difference, theirs: NDArray[np.int8], hints: NDArray[np.int64]
    ) -> dict[str, float] | None:
        """Plays with one difference as the preferences `theirs[A]` and their `hints[A, 3]` have it.

        Returns:
          Seconds by cost model; None if the game cannot serve these accesses so.
        """
        preferences, hinted, rows = self._preferences.copy(), self._hints.copy(), difference.accesses
        preferences[rows], hinted[rows] = theirs[rows], hints[rows]
        # The value that HBM serves later must be written back where it is made.
        maker = self._maker(int(rows[0]))
        if difference.fast and maker >= 0 and preferences[maker] == NO_COPY:
            preferences[maker] = COPY
        self.game.tables.set_hints(hinted)
        latencies = self._play(preferences)
        self.game.tables.set_hints(self._hints)
        served = self.game.state.access_fast[rows] > 0
        return latencies if bool((served != difference.fast).all()) else None

    def _maker(self, access: int) -> int:
        """Returns the last result of an access's buffer before it; -1 if there is none."""
        program = self._program
        rows = np.flatnonzero(program.access_buffer[:access] == program.access_buffer[access])
        results = rows[program.access_kind[rows] == RESULT]
        return int(results[-1]) if len(results) else -1

    def _play(self, preferences: NDArray[np.int8]) -> dict[str, float]:
        game = self.game
        kernels.reset(game.tables, game.state)
        play_until(game.tables, game.state, game.options, preferences, self._moves, TO_THE_END)
        return {m: float(kernels.judge(game.tables, s, game.state)) for m, s in self._scorings.items()}
