"""The self-play actor: many games at once, each move by one batched search, steps streamed to the replay."""

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..env.errors import UserError
from ..env.game import DEFAULT_MAX_WINDOW, DEFAULT_MSA_SHARE, DEFAULT_TRIVIAL_SHARE, NUM_MOVES, MallocGame
from ..env.objective import Judge, check_objective, make_judge
from ..env.observation import OBSERVATION_SIZE
from ..env.program import Program
from ..learner.networks import Network, Params
from ..replay.interface import SegmentWriter
from ..replay.segment import Step
from .reference import RewardScale, make_scale
from .search import SearchConfig, search


@dataclass(frozen=True)
class ActorConfig:
    """How an actor plays.

    Attributes:
      games: games played at once; one search serves them all.
      objective: what mappings are judged by: `robust`, `msa` or `cycles`; None for `robust` on programs that `cycles`
        can price, and `msa` on others.
      max_window: longest copy window in instructions.
      trivial_share: the game itself plays buffers whose benefits sum to less than this share of the latency.
      msa_share: weight of the `msa` model in the clock that games of `robust` count in; the rest is that of `cycles`.
    """

    games: int = 32
    objective: str | None = None
    max_window: int = DEFAULT_MAX_WINDOW
    trivial_share: float = DEFAULT_TRIVIAL_SHARE
    msa_share: float = DEFAULT_MSA_SHARE

    def __post_init__(self) -> None:
        if self.games < 1:
            raise UserError(f"actor: games must be at least 1, not {self.games}")
        if self.max_window < 1:
            raise UserError(f"actor: max_window must be at least 1, not {self.max_window}")
        if not 0.0 <= self.trivial_share < 1.0:
            raise UserError(f"actor: trivial_share must be in [0, 1), not {self.trivial_share}")
        if not 0.0 <= self.msa_share <= 1.0:
            raise UserError(f"actor: msa_share must be in [0, 1], not {self.msa_share}")
        if self.objective is not None:
            check_objective(self.objective)

    def game(self, program: Program) -> MallocGame:
        """Returns a new game on `program`."""
        return MallocGame(program, None, self.objective, self.max_window, self.trivial_share, self.msa_share)

    def judge(self, program: Program) -> Judge:
        """Returns what judges mappings of `program`."""
        return make_judge(program, self.objective)


@dataclass(frozen=True)
class EpisodeResult:
    """A finished game. Its mapping is what `actions` play; nobody has verified it yet.

    Attributes:
      program: name of the program.
      latency_s: simulated seconds, as the objective counts them (`objective.Judge`).
      score: 0 is as good as the greedy player, 1 is the floor.
      actions: the moves.
      decisions, evictions, stalled_copies: counts of the game.
      version: version of the parameters at its last move.
    """

    program: str
    latency_s: float
    score: float
    actions: list[int]
    decisions: int
    evictions: int
    stalled_copies: int
    version: int


@dataclass(frozen=True)
class PlayReport:
    """What a call of `SelfPlayActor.play` did, and where its time went, in seconds."""

    moves: int
    version: int
    seconds: float
    search_seconds: float
    game_seconds: float
    replay_seconds: float
    episodes: list[EpisodeResult] = field(default_factory=list)


class SelfPlayActor:
    """Plays `config.games` games side by side. Which program a slot plays next goes round by slot and episode."""

    def __init__(
        self,
        programs: Sequence[Program],
        network: Network,
        search_config: SearchConfig,
        config: ActorConfig,
        writers: Sequence[SegmentWriter],
        seed: int,
    ) -> None:
        """Begins all games.

        Args:
          programs: what is played; at least one with a decision to make.
          network: the network; its parameters come by `set_parameters`.
          search_config: how it searches.
          config: how it plays.
          writers: one per game.
          seed: of all its randomness.

        Raises:
          UserError: a program leaves nothing to decide, or there are too few writers.
        """
        if len(writers) != config.games:
            raise UserError(f"actor: {config.games} games need as many writers, not {len(writers)}")
        self._programs = list(programs)
        self._network = network
        self._search_config = search_config
        self._config = config
        self._writers = list(writers)
        self._scales: dict[int, RewardScale] = {}
        self._key = jax.random.key(seed)
        self._params: Params | None = None
        self._version = -1
        self._moves = 0
        # Slot `i` plays programs i, i + 1, ... in turn, so that all are played at any time.
        self._turn = np.arange(config.games)
        self._games = [self._new_game(slot) for slot in range(config.games)]
        self._observations = np.zeros((config.games, OBSERVATION_SIZE), np.float32)
        self._legal = np.zeros((config.games, NUM_MOVES), np.bool_)
        self._pending: deque[tuple[int, Step]] = deque()
        self._episodes: list[EpisodeResult] = []

    @property
    def moves(self) -> int:
        """Moves made so far."""
        return self._moves

    def set_parameters(self, params: Params, version: int) -> None:
        """Plays on with these parameters; `version` is the learner's step."""
        self._params = params
        self._version = version

    def play(self, moves: int) -> PlayReport:
        """Makes at least `moves` moves, a multiple of the number of games.

        Raises:
          ReplayTimeout: the replay takes no more for now. Nothing is lost: call again.
          ValueError: there are no parameters yet.
        """
        if self._params is None:
            raise ValueError("set_parameters comes before play")
        begin = time.perf_counter()
        made = 0
        search_seconds = game_seconds = 0.0
        self._hand_over()
        replay_seconds = time.perf_counter() - begin
        while made < moves:
            started = time.perf_counter()
            for slot, game in enumerate(self._games):
                game.observe(self._observations[slot])
                self._legal[slot] = game.legal
            observed = time.perf_counter()
            key = jax.random.fold_in(self._key, self._moves)
            result = search(self._network, self._params, key, self._observations, self._legal, self._search_config)
            actions, policies, values = jax.device_get((result.action, result.action_weights, result.value))
            searched = time.perf_counter()
            search_seconds += searched - observed
            game_seconds += observed - started
            for slot in range(len(self._games)):
                self._step(slot, int(actions[slot]), policies[slot], float(values[slot]))
            stepped = time.perf_counter()
            game_seconds += stepped - searched
            self._moves += len(self._games)
            made += len(self._games)
            self._hand_over()
            replay_seconds += time.perf_counter() - stepped
        episodes, self._episodes = self._episodes, []
        seconds = time.perf_counter() - begin
        return PlayReport(made, self._version, seconds, search_seconds, game_seconds, replay_seconds, episodes)

    def _step(self, slot: int, action: int, policy: NDArray[np.float32], value: float) -> None:
        """Makes a move in one game and puts the step in line for the replay."""
        game = self._games[slot]
        scale = self._scales[int(self._turn[slot]) % len(self._programs)]
        observation, legal = self._observations[slot].copy(), self._legal[slot].copy()
        since = game.access if game.actions else 0
        saved_s, done = game.step(action)
        reward = scale.reward(saved_s, since, game.program.num_accesses if done else game.access)
        discount = 0.0 if done else 1.0  # the learner and the search hold the discount per move
        self._pending.append((slot, Step(observation, legal, action, reward, discount, policy, value)))
        if done:
            self._episodes.append(self._result(game, scale))
            self._turn[slot] += 1
            self._games[slot] = self._new_game(slot, game)

    def _hand_over(self) -> None:
        """Gives the steps in line to their writers; those it cannot give yet stay in line."""
        while self._pending:
            slot, step = self._pending[0]
            self._writers[slot].append(step)
            self._pending.popleft()
            if step.discount == 0.0:
                self._writers[slot].end_episode()

    def state(self) -> dict[str, Any]:
        """Returns where the actor stands as plain JSON values; `restore` continues from there bit for bit.

        Steps that a `ReplayTimeout` has left in line are not part of it.
        """
        return {
            "moves": self._moves,
            "key": np.asarray(jax.random.key_data(self._key)).tolist(),
            "turn": self._turn.tolist(),
            "actions": [list(game.actions) for game in self._games],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Goes to where `state` says. The writers must be those of the same moment, or new.

        Raises:
          UserError: the state is not of an actor with as many games on these programs.
        """
        games = len(self._games)
        if len(state["turn"]) != games:
            raise UserError(f"actor: the saved state has {len(state['turn'])} games, the configuration {games}")
        self._moves = int(state["moves"])
        self._key = jax.random.wrap_key_data(jnp.asarray(state["key"], jnp.uint32))
        self._turn = np.asarray(state["turn"])
        for slot, actions in enumerate(state["actions"]):
            self._games[slot] = self._new_game(slot)
            try:
                self._games[slot].play(actions)
            except ValueError as error:
                raise UserError(
                    f"actor: the saved line of play of game {slot} is not legal on program "
                    f"{self._games[slot].program.name!r}: the program or the rules have changed; start a new run"
                ) from error

    def _new_game(self, slot: int, previous: MallocGame | None = None) -> MallocGame:
        index = int(self._turn[slot]) % len(self._programs)
        program = self._programs[index]
        if previous is not None and previous.program is program:
            previous.reset()
            game = previous
        else:
            game = self._config.game(program)
        if game.done:
            raise UserError(f"workload {program.name!r} leaves nothing to decide; choose another")
        if index not in self._scales:
            self._scales[index] = make_scale(self._config.game(program))
        return game

    def _result(self, game: MallocGame, scale: RewardScale) -> EpisodeResult:
        return EpisodeResult(
            game.program.name,
            game.latency_s,
            scale.score(game.latency_s),
            list(game.actions),
            game.decisions,
            game.evictions,
            game.stalled_copies,
            self._version,
        )
