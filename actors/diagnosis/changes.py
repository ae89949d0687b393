"""The moves that the agent would change on the line that follows XLA's production mapping, and the gain of each.

Every gain is exact: the line is played up to the decision, the other move is made, the line's plan plays the rest, and
the game is judged. Each change is judged alone, the rest as XLA has it.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # `scipy.stats` loads where it is first used: it takes half a second
from numpy.typing import NDArray

from ...env.game.game import MallocGame
from ...env.game.moves import COPY, DROP, MOVE_NAMES, NO_COPY
from ...env.program.program import OPERAND
from ...solvers.common.line import LineOfPlay
from ..self_play.programs import ProgramContext
from .alternatives import Alternatives
from .trace import Trace

# Gains below this share of the line's latency are rounding.
NEUTRAL = 1e-9
# Fewest random moves to compare with: the share of a handful means nothing.
_LEAST_RANDOM = 256
HELPS, NEITHER, HURTS = "helps", "neutral", "hurts"


@dataclass(frozen=True)
class Change:
    """Another move at one decision of the line.

    Attributes:
      decision: number of the decision, from 0.
      instruction, instruction_name, opcode: the instruction of the access.
      buffer, buffer_name, bytes: its buffer.
      use: `operand` or `result`.
      line_move, agent_move: names of the moves.
      line_does, agent_does: their effect there. For an operand: `stay fast`, `prefetch`, `from HBM`, or `from start`
        (prefetched by the previous execution). For a result: `to fast`, `to both` (and written back), `to HBM`.
      line_probability, agent_probability: their probabilities by the agent.
      gain_us: judged microseconds that the change saves.
      gain_of_production: the same as a share of production's latency.
      model_gain_us: microseconds saved by each cost model of the objective. Under `robust` the worse ratio decides, so
        a gain by the other model alone is no gain.
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
    """Statistics of the gains of moves other than the line's.

    Attributes:
      moves: number of moves.
      helps, neutral, hurts: number of moves with a gain, neither, or a loss.
      helps_share: share of moves with a gain; None without any moves.
      gain_us: sum of the gains. Changes made together do not gain the sum.
      loss_us: sum of the losses.
      rank_correlation: Spearman's, between the gain of a move and the agent's log-odds of it against the line's move;
        None where one of them is constant.
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
    """The agent's changes to XLA's mapping, beside random ones.

    Attributes:
      decisions: decisions of the line that follows XLA's mapping.
      line_us: latency of that line.
      production_us: latency of XLA's mapping.
      agent: gains of the agent's changes.
      random: gains of as many random other moves, of at least 256 if there are that many.
      alternatives: number of all other legal moves, from which `random` is drawn.
      together_us: latency of the line with all changes of the agent at once.
      helping_together_us: latency of the line with all changes that help alone.
      changes: the agent's changes, the most probable first.
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


@dataclass(frozen=True, eq=False)
class Tried:
    """Moves other than the line's, and their gains.

    Attributes:
      decision, move: `[N]`.
      log_odds: `[N]` the agent's log-odds of the move against the line's.
      gain_s: `[N]` judged seconds that the move saves.
      model_gain_s: seconds that each move saves, by cost model.
    """

    decision: NDArray[np.int64]
    move: NDArray[np.int64]
    log_odds: NDArray[np.float64]
    gain_s: NDArray[np.float64]
    model_gain_s: list[dict[str, float]]


def find_changes(
    context: ProgramContext,
    line: LineOfPlay,
    trace: Trace,
    *,
    preferred: NDArray[np.int64],
    probability: NDArray[np.float64],
    production_s: float,
    seed: int,
) -> tuple[Changes, Tried, Tried]:
    """Tries the agent's moves, and random ones, in place of the line's.

    Args:
      context: the program.
      line: the line that follows production.
      trace: its record.
      preferred: `[D]` the agent's moves.
      probability: `[D, M]` the agent's probabilities, 0 for illegal moves.
      production_s: judged seconds of production.
      seed: of the random moves.

    Returns:
      The changes, the agent's moves that were tried, and the random ones.
    """
    alternatives = Alternatives(context, line)
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
            decision=decisions,
            move=moves,
            log_odds=log[decisions, moves] - log[decisions, trace.action[decisions]],
            gain_s=np.where(np.abs(gains) <= NEUTRAL * whole_s, 0.0, gains),
            model_gain_s=[{model: whole[model] - latencies[model] for model in whole} for latencies in found],
        )

    changed = np.flatnonzero(preferred != trace.action)
    agent = attempt(changed, preferred[changed])
    pool = np.argwhere(others)
    count = min(len(pool), max(len(changed), _LEAST_RANDOM))
    drawn = pool[np.sort(np.random.default_rng(seed).choice(len(pool), count, replace=False))]
    random = attempt(drawn[:, 0], drawn[:, 1])
    order = np.lexsort((changed, -probability[changed, preferred[changed]]))
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
        decisions=len(trace),
        line_us=whole_s * 1e6,
        production_us=production_s * 1e6,
        agent=tally(agent),
        random=tally(random),
        alternatives=len(pool),
        together_us=alternatives.seconds(alternatives.along(_moves(agent, agent.gain_s < np.inf))) * 1e6,
        helping_together_us=alternatives.seconds(alternatives.along(_moves(agent, agent.gain_s > 0.0))) * 1e6,
        changes=changes,
    )
    return found, agent, random


def tally(tried: Tried) -> Tally:
    """Returns statistics of the gains of moves."""
    gain_us = tried.gain_s * 1e6
    helps, hurts = int((gain_us > 0.0).sum()), int((gain_us < 0.0).sum())
    return Tally(
        moves=len(gain_us),
        helps=helps,
        neutral=len(gain_us) - helps - hurts,
        hurts=hurts,
        helps_share=helps / len(gain_us) if len(gain_us) else None,
        gain_us=float(gain_us[gain_us > 0.0].sum()),
        loss_us=float(-gain_us[gain_us < 0.0].sum()),
        rank_correlation=_rank_correlation(tried.log_odds, gain_us),
    )


def _moves(tried: Tried, which: NDArray[np.bool_]) -> dict[int, int]:
    """Returns the moves of `which[N]` by decision."""
    return dict(zip(tried.decision[which].tolist(), tried.move[which].tolist(), strict=True))


def _rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    if len(one) < 2 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return None
    return float(scipy.stats.spearmanr(one, other)[0])


def _describe(
    game: MallocGame,
    line_move: int,
    agent_move: int,
    probability: NDArray[np.float64],
    gain_s: float,
    model_gain_s: dict[str, float],
    production_s: float,
) -> Change:
    """Describes a change at the decision that `game` stands before."""
    program, access = game.program, game.tables.access[game.access]
    t, buffer = int(access["instruction"]), int(access["buffer"])
    is_operand = bool(access["kind"] == OPERAND)
    resident = bool(game.state.buffer["resident"][buffer])
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
    """Returns the effect of a move in words (docs/mallocgame.md)."""
    if not is_operand:
        return {NO_COPY: "to fast", COPY: "to both", DROP: "to HBM"}[move]
    if move == DROP:
        return "from HBM"
    if move == COPY:
        return "prefetch"
    return "stay fast" if resident else "from start"
