"""A slot of an actor that plays the residency game: rounds on one program after another."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.plan import digits_of, new_plan_game, plan_of_digits
from ...env.residency.game import Round, Sizes
from ...env.residency.position import Position
from ...env.residency.seat import EVERYTHING, Seat
from ...replay.segment import Step
from ...solvers.learned.score import Score
from .residency_config import ResidencyConfig
from .residency_programs import ResidencyPool

# A change that has been offered counts for less: an offer adds this many tries, up to the largest digit, and each try
# takes this much of the logit. A move that gains halves the tries.
_TRY, _MOST_TRIES, _TRIED = 2, 9, 2.0


@dataclass
class _Move:
    """A move of the present round, until its return is known."""

    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    outcome: NDArray[np.float64]
    action: int
    reward: float
    policy: NDArray[np.float32]


@dataclass
class Played:
    """What a move has led to: the steps of the round if it is over, and judged seconds of the game if it has ended."""

    steps: list[Step] = field(default_factory=list)
    game_s: float | None = None


class ResidencySlot:
    """Plays games of rounds, of all programs in turn.

    Slow work is left to threads, which play for many slots at once. A move of the batch takes these steps: `look`, a
    turn of the slots that returned true, `propose` for these; `begin`, a turn of the slots that returned true, `begun`
    for these; `observe`, the search, `choose`, a turn, `take`. A turn is `env.residency.seat.play_turns` at `address`.

    Attributes:
      context: the program at hand.
      round: the present round; None before the first.
    """

    def __init__(self, pool: ResidencyPool, turn: int, config: ResidencyConfig, seed: int) -> None:
        self._pool, self._config = pool, config
        self._sizes = Sizes(config.candidates)
        self._generator = np.random.default_rng(seed)
        self._turn = turn
        self.round: Round | None = None
        self._moves: list[_Move] = []
        self._rounds = self._idle = self._games = 0
        self._enter()
        self._begin_game()

    @property
    def address(self) -> int:
        """The address of the slot's turn."""
        return self._seat.turn.address

    def _enter(self) -> None:
        """Goes on to the program of this turn, or to the next one that can be played."""
        for _ in range(len(self._pool)):
            context = self._pool[self._turn % len(self._pool)]
            if context.playable:
                break
            self._turn += 1
        else:
            raise UserError("actor: no program leaves anything to decide; choose others")
        if getattr(self, "context", None) is context:
            return
        self.context = context
        # A game of its own: slots play at the same time.
        game = new_plan_game(context.task.tables, context.task.game.judge)
        self._position = Position(game, context.starts[0][1], context.changes)
        self._tries = np.zeros(len(context.changes.stay), np.int8)
        self._seat = Seat(self._position, self._config.candidates)

    def look(self) -> bool:
        """Returns whether changes have to be proposed; the slot's turn then describes all stays of the position."""
        if self.round is not None or len(self._queue):
            return False
        self._seat.ask(look=EVERYTHING)
        return True

    def propose(self, score: Score) -> None:
        """Draws the candidates of the next rounds: changes that `score` proposes, and some at random."""
        changes, config, rows = self._position.changes, self._config, self._seat.observer.stays
        changing = self._seat.observer.changing
        some = min(config.candidates * config.rounds_per_score, int(changing.sum()))
        random = round(config.uniform * some)
        drawn = self._drawn(np.where(changing, 0.0, -np.inf), random)
        changing[drawn] = False
        scores = score(rows, changes.stay, changes.placement) / config.temperature
        proposed = self._drawn(np.where(changing, scores, -np.inf), some - random)
        self._queue = self._generator.permutation(np.concatenate([drawn, proposed]))

    def begin(self) -> bool:
        """Begins a round unless one is on, and returns whether it did; the slot's turn then judges the candidates."""
        if self.round is not None:
            return False
        candidates, self._queue = np.split(self._queue, [self._config.candidates])
        self._tries[candidates] = np.minimum(self._tries[candidates] + _TRY, _MOST_TRIES)
        self._round_plan = self._position.plan.copy()
        self.round = Round(self._seat, candidates, self._config.moves, begin=False)
        return True

    def _drawn(self, logits: NDArray[np.floating], count: int) -> NDArray[np.int64]:
        """Returns `count` changes, drawn without replacement by `logits[C]`; those that have been tried count less."""
        if not count:
            return np.zeros(0, np.int64)
        keys = logits - _TRIED * self._tries + self._generator.gumbel(size=len(logits))
        return np.argpartition(-keys, count - 1)[:count].astype(np.int64)

    def begun(self) -> None:
        """Takes what the turn of a new round has found."""
        assert self.round is not None
        self.round.take()

    def observe(self, observation: NDArray[np.float32], legal: NDArray[np.bool_], outcome: NDArray[np.float32]) -> None:
        """Fills the observation, the legal moves and their outcomes, NaN for others."""
        assert self.round is not None
        self.round.observe(observation)
        legal[:] = self.round.legal
        outcome[:] = self.round.outcomes

    def choose(self, action: int, observation: NDArray[np.float32], policy: NDArray[np.float32]) -> None:
        """Chooses a move of the round by `policy[K + 1]` on `observation`; the turn makes it."""
        current = self.round
        assert current is not None
        self._moves.append(
            _Move(observation.copy(), current.legal.copy(), current.outcomes.copy(), action, 0.0, policy)
        )
        current.choose(action)

    def take(self) -> Played:
        """Takes what the turn of a move has found."""
        current = self.round
        assert current is not None
        reward = self._moves[-1].reward = current.take()
        if reward > 0.0:
            self._tries >>= 1
        self.context.offer(self._position.seconds, self._position.plan)
        if not current.done:
            return Played()
        steps = self._steps()
        gained = current.gain > 0.0
        self.round, self._moves = None, []
        self._rounds += 1
        self._idle = 0 if gained else self._idle + 1
        game_s = None
        if self._rounds >= self._config.rounds or self._idle >= self._config.idle_rounds:
            game_s = self._position.seconds
            self._games += 1
            if self._games % self._config.games == 0:
                self._turn += 1
                self._enter()
            self._begin_game()
        return Played(steps, game_s)

    def _steps(self) -> list[Step]:
        """Returns the steps of the round, whose values are the exact returns."""
        returns = np.cumsum([move.reward for move in self._moves][::-1])[::-1]
        last = len(self._moves) - 1
        return [
            Step(
                move.observation,
                move.legal,
                move.action,
                move.reward,
                0.0 if place == last else 1.0,
                move.policy,
                float(returns[place]),
                move.outcome.astype(np.float32),
            )
            for place, move in enumerate(self._moves)
        ]

    def _begin_game(self) -> None:
        """Chooses the plan that a game begins with."""
        config, draw = self._config, self._generator
        starts = self.context.starts
        if draw.random() < config.from_best:
            plan = self.context.best[1]
        else:
            plan = starts[min(int(draw.geometric(0.4)) - 1, len(starts) - 1)][1]
        self._position.start(plan)
        self._tries[:] = 0
        self._queue = np.zeros(0, np.int64)
        if draw.random() < config.kick:
            for number in draw.integers(0, len(self._position.changes.stay), int(draw.integers(1, config.kicks + 1))):
                self._position.make(int(number))
        self._rounds = self._idle = 0

    def state(self) -> dict[str, Any]:
        """Returns the state as plain JSON values; after `restore` the slot continues bit for bit."""
        current = self.round
        return {
            "turn": self._turn,
            "generator": self._generator.bit_generator.state,
            "games": self._games,
            "rounds": self._rounds,
            "idle": self._idle,
            "plan": digits_of(self._position.plan if current is None else self._round_plan),
            "tries": digits_of(self._tries),
            "queue": self._queue.tolist(),
            "candidates": None if current is None else current.candidates.tolist(),
            "moves": [[move.action, move.policy.tolist()] for move in self._moves],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned. Raises ValueError or KeyError if it does not belong to the program."""
        self._turn = int(state["turn"])
        self._enter()
        self._generator.bit_generator.state = state["generator"]
        self._games, self._rounds, self._idle = (int(state[name]) for name in ("games", "rounds", "idle"))
        plan = plan_of_digits(state["plan"])
        if len(plan) != len(self._position.plan):
            raise ValueError("the program has another number of accesses")
        self._position.start(plan)
        self._tries[:] = plan_of_digits(state["tries"])
        self._queue = np.array(state["queue"], np.int64)
        self.round, self._moves = None, []
        if state["candidates"] is None:
            return
        self._round_plan = plan
        self.round = Round(self._seat, np.array(state["candidates"], np.int64), self._config.moves)
        observation = np.zeros(self._sizes.observation, np.float32)
        for action, policy in state["moves"]:
            assert self.round is not None
            self.round.observe(observation)
            legal, outcome = self.round.legal.copy(), self.round.outcomes.copy()
            reward = self.round.play(int(action))
            row = np.array(policy, np.float32)
            self._moves.append(_Move(observation.copy(), legal, outcome, int(action), reward, row))
