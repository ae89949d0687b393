"""The loop of self-play, for either game: observe all games, search once, move all games, stream steps to replay."""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...learner.networks.network import Network, Params
from ...replay.interface import SegmentWriter
from ...replay.segment import Step
from ..search.search import SearchConfig, search
from .episode import EpisodeResult


@dataclass(frozen=True)
class PlayReport:
    """The work of one call of `Actor.play`, and its time by phase.

    Attributes:
      moves: moves made, over all games.
      version: version of the parameters.
      seconds: duration of the call.
      search_seconds, game_seconds, replay_seconds, annealing_seconds: the parts of it.
      episodes: games that ended.
    """

    moves: int
    version: int
    seconds: float
    search_seconds: float
    game_seconds: float
    replay_seconds: float
    annealing_seconds: float = 0.0
    episodes: list[EpisodeResult] = field(default_factory=list)


@dataclass(frozen=True)
class _End:
    """A mark in the queue of steps: the episode has no more of them. `cut` if its game goes on."""

    cut: bool


class Actor(ABC):
    """Plays many games side by side, with one batched search for each move of all of them."""

    def __init__(
        self,
        network: Network,
        search_config: SearchConfig,
        games: int,
        sizes: tuple[int, int],
        writers: Sequence[SegmentWriter],
        seed: int,
    ) -> None:
        """Begins without parameters.

        Args:
          network: the network; `set_parameters` gives its parameters.
          search_config: settings of the search.
          games: games side by side, `B`.
          sizes: numbers in an observation, and moves, `(D, M)`.
          writers: one per game.
          seed: of the search.

        Raises:
          UserError: there are too few writers, or too many.
        """
        if len(writers) != games:
            raise UserError(f"actor: {games} games need as many writers, not {len(writers)}")
        self._network, self._search_config, self._games = network, search_config, games
        self._writers = list(writers)
        self._key = jax.random.key(seed)
        self._params: Params | None = None
        self._version = -1
        self._moves = 0
        self._observations = np.zeros((games, sizes[0]), np.float32)
        self._legal = np.zeros((games, sizes[1]), np.bool_)
        self._pending: deque[tuple[int, Step | _End]] = deque()
        self._episodes: list[EpisodeResult] = []

    @property
    def moves(self) -> int:
        """Searched moves so far."""
        return self._moves

    def set_parameters(self, params: Params, version: int) -> None:
        """Replaces the parameters; `version` is the step of the learner that made them."""
        self._params, self._version = params, version

    def play(self, moves: int) -> PlayReport:
        """Makes at least `moves` moves, a multiple of the number of games.

        Raises:
          ReplayTimeout: the replay takes no more steps for now. Nothing is lost: call again.
          ValueError: `set_parameters` has not been called.
        """
        if self._params is None:
            raise ValueError("set_parameters comes before play")
        begin = time.perf_counter()
        made = 0
        search_seconds = game_seconds = 0.0
        self._write_pending()
        replay_seconds = time.perf_counter() - begin
        while made < moves:
            started = time.perf_counter()
            outcomes = self._observe()
            observed = time.perf_counter()
            key = jax.random.fold_in(self._key, self._moves)
            found = search(
                self._network, self._params, key, self._observations, self._legal, self._search_config, outcomes
            )
            actions, policies, values = jax.device_get((found.action, found.action_weights, found.value))
            searched = time.perf_counter()
            self._step(actions, policies, values)
            stepped = time.perf_counter()
            search_seconds += searched - observed
            game_seconds += (observed - started) + (stepped - searched)
            self._moves += self._games
            made += self._games
            self._write_pending()
            replay_seconds += time.perf_counter() - stepped
        annealing_seconds = self._conclude()
        episodes, self._episodes = self._episodes, []
        return PlayReport(
            moves=made,
            version=self._version,
            seconds=time.perf_counter() - begin,
            search_seconds=search_seconds,
            game_seconds=game_seconds,
            replay_seconds=replay_seconds,
            annealing_seconds=annealing_seconds,
            episodes=episodes,
        )

    @abstractmethod
    def offer_lines(self, lines: Mapping[str, tuple[float, Sequence[int]]]) -> None:
        """Takes over what other actors have found, judged seconds and moves by program name, where it is better.

        Raises:
          UserError: a line does not fit its program.
        """

    @abstractmethod
    def _observe(self) -> NDArray[np.float32] | None:
        """Fills the observations `[B, D]` and legal moves `[B, M]`; returns the moves' outcomes `[B, M]` if known."""

    @abstractmethod
    def _step(self, actions: NDArray[np.int32], policies: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        """Moves all games by the search's results, `[B]`, `[B, M]` and `[B]`; queues their steps."""

    def _conclude(self) -> float:
        """Does what is done once per call of `play`; returns the seconds of annealing."""
        return 0.0

    def _queue(self, game: int, steps: Sequence[Step], ends: bool) -> None:
        """Queues steps of a game for its writer; `ends` if the episode has no more of them."""
        self._pending.extend((game, step) for step in steps)
        if ends:
            self._pending.append((game, _End(cut=steps[-1].discount != 0.0)))

    def _write_pending(self) -> None:
        """Hands the queued steps to their writers; after a `ReplayTimeout` the rest stays queued."""
        while self._pending:
            game, step = self._pending[0]
            if isinstance(step, _End):
                self._writers[game].end_episode(step.cut)
            else:
                self._writers[game].append(step)
            self._pending.popleft()

    def state(self) -> dict[str, Any]:
        """Returns the actor's state as plain JSON values; after `restore` it continues bit for bit.

        Steps that a `ReplayTimeout` has left queued are not part of the state.
        """
        return {"moves": self._moves, "key": np.asarray(jax.random.key_data(self._key)).tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned. The writers must be new, or restored to the same moment.

        Raises:
          UserError: the state belongs to an actor with other games or programs.
        """
        self._moves = int(state["moves"])
        self._key = jax.random.wrap_key_data(jnp.asarray(state["key"], jnp.uint32))

    def _games_of(self, state: dict[str, Any], field: str, missing: str) -> list[Any]:
        """Returns the saved games of a state; `missing` says what is wrong with a state without them."""
        games: list[Any] | None = state.get(field)
        if games is None:
            raise UserError(f"actor: {missing}; start a new run")
        if len(games) != self._games:
            raise UserError(f"actor: the saved state has {len(games)} games, the configuration {self._games}")
        return games
