"""Counterfactual games: a line of play with other moves at some decisions, played to the end and judged exactly."""

from ...env.game.game import MallocGame
from ...env.game.kernels import judge
from ...env.game.outcome import make_scoring
from ...env.game.plan import preference_for
from ...env.physics.cost import CYCLES, MSA
from ...solvers.common.line import LineOfPlay
from ..self_play.programs import ProgramContext


class Alternatives:
    """Games that leave a line of play at some decisions and follow it elsewhere."""

    def __init__(self, context: ProgramContext, line: LineOfPlay) -> None:
        """Prepares games on `line`, a line of play of the program of `context`."""
        self._context, self._line = context, line
        self._game = context.clone_game()
        # By one cost model alone, the outcome of a game is its seconds by that model.
        self._scorings = {}
        for model in self._game.judge.models:
            scoring = self._scorings[model] = make_scoring(self._game.judge)
            scoring.objective.msa_s, scoring.objective.cycles_s = (float(model == each) for each in (MSA, CYCLES))
            scoring.objective.unit_s = 1.0

    def before(self, decision: int) -> MallocGame:
        """Returns the game before a decision of the line. All calls return the same game object."""
        self._line.begin(self._game, decision)
        return self._game

    def seconds(self, latencies: dict[str, float]) -> float:
        """Returns the judged seconds of latencies by cost model."""
        return self._game.judge.seconds(latencies)

    def along(self, moves: dict[int, int]) -> dict[str, float]:
        """Returns the seconds by cost model of the game that makes other moves at some decisions of the line.

        The game leaves the line at the first of them. The later moves are made where they are still legal.
        """
        preferences, first = self._line.preferences.copy(), min(moves, default=0)
        for decision in sorted(moves, reverse=True):
            game = self.before(decision)
            preferences[game.access] = preference_for(game.tables, game.state, moves[decision])
        game = self.before(first)
        if moves:
            game.step_unpaid(moves[first])
        self._context.play_out(game, preferences)
        return {model: float(judge(game.tables, scoring, game.state)) for model, scoring in self._scorings.items()}
