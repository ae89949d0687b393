"""What the agent would change about the line that follows XLA's production mapping, and what each change is worth.

Every figure is exact: the line is played up to the decision, the other move is made, the game goes on by the line's
plan, and what it comes to is what the judge sees. A change is judged alone, the rest as XLA has it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from ...env.game.game import COPY, DROP, MOVE_NAMES, NO_COPY, MallocGame
from ...env.game.state import A_BUFFER, A_INSTRUCTION, A_KIND, B_PLAYED, B_TRIVIAL, S_RESIDENT
from ...env.physics.cost import MODELS
from ...env.program.program import OPERAND
from ...solvers.common.line import LineOfPlay, play_to_end, rollout
from ...solvers.common.outcome import make_scoring, outcome
from ...solvers.common.plan import preference_of
from ..self_play.played_program import PlayedProgram
from .trace import Trace

# Gains below this share of the line's latency are rounding.
NEUTRAL = 1e-9
# Random moves to compare with, where the agent changes fewer: a share of a handful says nothing.
_LEAST_RANDOM = 256
HELPS, NEITHER, HURTS = "helps", "neutral", "hurts"


@dataclass(frozen=True)
class Change:
    """Another move at one decision of the line.

    Attributes:
      decision: number of the decision, from 0.
      instruction, instruction_name, opcode: where.
      buffer, buffer_name, bytes: of what.
      use: `operand` or `result`.
      line_move, agent_move: names of the moves.
      line_does, agent_does: what they mean there. Of an operand: `stay fast`, `prefetch`, `from HBM`, or `from start`
        (prefetched by the previous execution). Of a result: `to fast`, `to both` (and written back), `to HBM`.
      line_probability, agent_probability: what the agent gives them.
      gain_us: microseconds by which the game gets shorter, by the objective.
      gain_of_production: the same as a share of production's latency.
      model_gain_us: microseconds by cost model, of those that the objective counts. Under `robust` the worse ratio
        decides, and a gain by the other model alone is none.
      effect: `helps`, `neutral` or `hurts`.
    """

    decision: int
    instruction: int
    instruction_name: str
    opcode: str
    buffer: int
    buffer_name: str
    bytes: int
    use: str
    line_move: str
    agent_move: str
    line_does: str
    agent_does: str
    line_probability: float
    agent_probability: float
    gain_us: float
    gain_of_production: float
    model_gain_us: dict[str, float]
    effect: str


@dataclass(frozen=True)
class Tally:
    """How moves other than the line's turn out.

    Attributes:
      moves: how many.
      helps, neutral, hurts: of them.
      helps_share: None without any.
      gain_us: sum of the gains above 0. Gains do not add up when made together.
      loss_us: sum of the losses.
      rank_correlation: Spearman's, of the agent's log-odds of the move against the line's and of its gain; None where
        one of them is the same everywhere.
    """

    moves: int
    helps: int
    neutral: int
    hurts: int
    helps_share: float | None
    gain_us: float
    loss_us: float
    rank_correlation: float | None


@dataclass(frozen=True)
class Changes:
    """What the agent would change about XLA's mapping.

    Attributes:
      decisions: of the line that follows it.
      line_us: what that line comes to.
      production_us: what XLA's mapping comes to.
      agent: how the agent's changes turn out.
      random: how as many random other moves turn out, at least 256 if there are so many.
      alternatives: other legal moves in all: what `random` is drawn from.
      together_us: what the line comes to with all changes of the agent at once.
      helping_together_us: with those that help alone.
      changes: the agent's, the surest first.
    """

    decisions: int
    line_us: float
    production_us: float
    agent: Tally
    random: Tally
    alternatives: int
    together_us: float
    helping_together_us: float
    changes: list[Change]


class Alternatives:
    """Games that leave a line by one move and go on by it."""

    def __init__(self, played: PlayedProgram, line: LineOfPlay) -> None:
        """Takes `line`, a line of play of `played`."""
        self._played, self._line = played, line
        self._game = played.unset_game()
        judge = self._game.judge
        scoring = make_scoring(self._game)
        # Judged by one cost model alone, a game comes to the seconds of that model.
        self._scorings = {
            model: scoring._replace(baseline=np.eye(len(MODELS))[MODELS.index(model)], unit_s=np.ones(1))
            for model in judge.models
        }
        buffers = self._game.tables.buffer
        # Compiled play passes over the buffers that such games place themselves.
        self._slowly = bool(buffers[buffers[:, B_TRIVIAL] == 1, B_PLAYED].any())

    def before(self, decision: int) -> MallocGame:
        """Returns the game as it stands before a decision of the line; the next call takes it back."""
        self._line.begin(self._game, decision)
        return self._game

    def seconds(self, latencies: dict[str, float]) -> float:
        """Returns what latencies by cost model come to, as the judge counts."""
        return self._game.judge.seconds(latencies)

    def along(self, moves: dict[int, int]) -> dict[str, float]:
        """Returns the seconds by cost model of the game that makes other moves at some decisions of the line.

        The game leaves the line at the first of them; the others are made as far as they stay legal.
        """
        preferences, first = self._line.preferences.copy(), min(moves, default=0)
        for decision in sorted(moves, reverse=True):
            game = self.before(decision)
            preferences[game.access] = preference_of(game.tables, game.state, moves[decision])
        game = self.before(first)
        if moves:
            game.step_unpaid(moves[first])
        self._finish(game, preferences)
        return {model: float(outcome(game.tables, scoring, game.state)) for model, scoring in self._scorings.items()}

    def _finish(self, game: MallocGame, preferences: NDArray[np.int8]) -> None:
        if self._slowly:
            play_to_end(game, preferences)
        elif not game.done:
            rollout(game.tables, game.state, game.legal, self._played.following, preferences)


@dataclass(frozen=True, eq=False)
class Tried:
    """Other moves than the line's, and what they came to.

    Attributes:
      decision, move: `[N]`.
      preference: `[N]` the agent's log-odds of the move against the line's.
      gain_s: `[N]`.
      model_gain_s: by cost model.
    """

    decision: NDArray[np.int64]
    move: NDArray[np.int64]
    preference: NDArray[np.float64]
    gain_s: NDArray[np.float64]
    model_gain_s: list[dict[str, float]]


def find_changes(
    played: PlayedProgram,
    line: LineOfPlay,
    trace: Trace,
    preferred: NDArray[np.int64],
    probability: NDArray[np.float64],
    production_s: float,
    seed: int,
) -> tuple[Changes, Tried, Tried]:
    """Tries what the agent would do instead.

    Args:
      played: the program.
      line: the line that follows production.
      trace: its record.
      preferred: `[D]` the agent's moves.
      probability: `[D, 3]` what it gives to each move, 0 where illegal.
      production_s: what production comes to.
      seed: of the random moves.

    Returns:
      the changes, and what was tried: the agent's moves and random ones.
    """
    alternatives = Alternatives(played, line)
    log = np.log(np.maximum(probability, 1e-30))
    rows = np.arange(len(trace))
    others = trace.legal.copy()
    others[rows, trace.action] = False
    known: dict[tuple[int, int], dict[str, float]] = {}
    whole = alternatives.along({})
    whole_s = alternatives.seconds(whole)

    def attempt(decisions: NDArray[np.int64], moves: NDArray[np.int64]) -> Tried:
        found = []
        for decision, move in zip(decisions.tolist(), moves.tolist(), strict=True):
            if (decision, move) not in known:
                known[decision, move] = alternatives.along({decision: move})
            found.append(known[decision, move])
        gains = whole_s - np.array([alternatives.seconds(latencies) for latencies in found])
        return Tried(
            decisions,
            moves,
            log[decisions, moves] - log[decisions, trace.action[decisions]],
            np.where(np.abs(gains) <= NEUTRAL * whole_s, 0.0, gains),
            [{model: whole[model] - latencies[model] for model in whole} for latencies in found],
        )

    wanted = np.flatnonzero(preferred != trace.action)
    agent = attempt(wanted, preferred[wanted])
    pool = np.argwhere(others)
    count = min(len(pool), max(len(wanted), _LEAST_RANDOM))
    drawn = pool[np.sort(np.random.default_rng(seed).choice(len(pool), count, replace=False))]
    random = attempt(drawn[:, 0], drawn[:, 1])
    order = np.lexsort((wanted, -probability[wanted, preferred[wanted]]))
    changes = [
        _describe(
            alternatives.before(int(agent.decision[row])),
            int(trace.action[agent.decision[row]]),
            int(agent.move[row]),
            probability[agent.decision[row]],
            float(agent.gain_s[row]),
            agent.model_gain_s[row],
            production_s,
        )
        for row in order
    ]
    found = Changes(
        len(trace),
        whole_s * 1e6,
        production_s * 1e6,
        tally(agent),
        tally(random),
        len(pool),
        alternatives.seconds(alternatives.along(_moves(agent, agent.gain_s < np.inf))) * 1e6,
        alternatives.seconds(alternatives.along(_moves(agent, agent.gain_s > 0.0))) * 1e6,
        changes,
    )
    return found, agent, random


def tally(tried: Tried) -> Tally:
    """Counts how moves turn out."""
    gain_us = tried.gain_s * 1e6
    helps, hurts = int((gain_us > 0.0).sum()), int((gain_us < 0.0).sum())
    return Tally(
        len(gain_us),
        helps,
        len(gain_us) - helps - hurts,
        hurts,
        helps / len(gain_us) if len(gain_us) else None,
        float(gain_us[gain_us > 0.0].sum()),
        float(-gain_us[gain_us < 0.0].sum()),
        _rank_correlation(tried.preference, gain_us),
    )


def _moves(tried: Tried, which: NDArray[np.bool_]) -> dict[int, int]:
    return dict(zip(tried.decision[which].tolist(), tried.move[which].tolist(), strict=True))


def _rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    if len(one) < 2 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return None
    return float(spearmanr(one, other)[0])


def _describe(
    game: MallocGame,
    line_move: int,
    agent_move: int,
    probability: NDArray[np.float64],
    gain_s: float,
    model_gain_s: dict[str, float],
    production_s: float,
) -> Change:
    """Names a change at the decision that the game stands before."""
    program, access = game.program, game.tables.access[game.access]
    t, buffer = int(access[A_INSTRUCTION]), int(access[A_BUFFER])
    is_operand = bool(access[A_KIND] == OPERAND)
    resident = bool(game.state.buffer[buffer, S_RESIDENT])
    return Change(
        decision=len(game.actions),
        instruction=t,
        instruction_name=program.instruction_names[t],
        opcode=program.opcodes[t],
        buffer=buffer,
        buffer_name=program.buffer_names[buffer],
        bytes=int(program.size[buffer]),
        use="operand" if is_operand else "result",
        line_move=MOVE_NAMES[line_move],
        agent_move=MOVE_NAMES[agent_move],
        line_does=_words(line_move, is_operand, resident),
        agent_does=_words(agent_move, is_operand, resident),
        line_probability=float(probability[line_move]),
        agent_probability=float(probability[agent_move]),
        gain_us=gain_s * 1e6,
        gain_of_production=gain_s / production_s,
        model_gain_us={model: seconds * 1e6 for model, seconds in model_gain_s.items()},
        effect=HELPS if gain_s > 0.0 else HURTS if gain_s < 0.0 else NEITHER,
    )


def _words(move: int, is_operand: bool, resident: bool) -> str:
    """Returns what a move means: docs/mallocgame.md."""
    if not is_operand:
        return {NO_COPY: "to fast", COPY: "to both", DROP: "to HBM"}[move]
    if move == DROP:
        return "from HBM"
    if move == COPY:
        return "prefetch"
    return "stay fast" if resident else "from start"
