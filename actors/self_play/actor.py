"""The self-play loop: an actor plays many games at once, one batched search per move, and streams steps to replay."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...env.errors import UserError
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...env.program.program import Program
from ...learner.networks.network import Network, Params
from ...replay.interface import SegmentWriter
from ...replay.segment import Step
from ..search.search import SearchConfig, search
from .annealing import Annealing
from .batch import Crew
from .branch import Branches
from .config import ActorConfig
from .episode import EpisodeResult, Player, WholeGames, report_best_line
from .programs import ProgramPool


@dataclass(frozen=True)
class PlayReport:
    """The work of one call of `SelfPlayActor.play`, and its time by phase.

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


class SelfPlayActor:
    """Plays `config.games` games side by side, whole games and branches (`branch.py`).

    Each slot plays the programs in turn, episode by episode.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        network: Network,
        search_config: SearchConfig,
        config: ActorConfig,
        writers: Sequence[SegmentWriter],
        seed: int,
        segment_length: int = 1,
    ) -> None:
        """Begins all games.

        Args:
          programs: the programs, at least one.
          network: the network; `set_parameters` gives its parameters.
          search_config: settings of the search.
          config: settings of the games.
          writers: one per game.
          seed: of everything random in the actor.
          segment_length: steps of a segment. Branches record enough steps along the line to complete the segment of
            every searched step.

        Raises:
          UserError: a program leaves nothing to decide, or there are too few writers.
        """
        if len(writers) != config.games:
            raise UserError(f"actor: {config.games} games need as many writers, not {len(writers)}")
        self._network = network
        self._search_config = search_config
        self._writers = list(writers)
        self._key = jax.random.key(seed)
        self._params: Params | None = None
        self._version = -1
        self._moves = 0
        self._programs = ProgramPool([config.game(program) for program in programs], config.followed)
        self._annealing_config, self._seed = config.annealing, seed
        self._annealing: dict[int, Annealing] = {}
        self._slices = 0
        # Slot `i` plays programs i, i + 1, ... in turn, so that the slots play different programs at any time.
        whole = config.games - round(config.games * config.branch.share)
        tail = segment_length - 1
        self._slots: list[Player] = [
            WholeGames(self._programs, slot, config.branch.opponent)
            if slot < whole
            else Branches(self._programs, slot, config.branch, tail, seed + slot)
            for slot in range(config.games)
        ]
        self._crew = Crew(config.games, config.threads)
        self._observations = np.zeros((config.games, OBSERVATION_SIZE), np.float32)
        self._legal = np.zeros((config.games, NUM_MOVES), np.bool_)
        self._pending: deque[tuple[int, Step | _End]] = deque()
        self._episodes: list[EpisodeResult] = []

    @property
    def moves(self) -> int:
        """Searched moves so far."""
        return self._moves

    def set_parameters(self, params: Params, version: int) -> None:
        """Replaces the parameters; `version` is the step of the learner that made them."""
        self._params = params
        self._version = version

    def offer_lines(self, lines: Mapping[str, tuple[float, Sequence[int]]]) -> None:
        """Takes over lines of play, judged seconds and moves by program name, that are better than the actor's own.

        Raises:
          UserError: a line is not legal.
        """
        for name, (latency_s, actions) in lines.items():
            self._programs.offer(name, latency_s, actions)

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
            self._observe()
            observed = time.perf_counter()
            key = jax.random.fold_in(self._key, self._moves)
            result = search(self._network, self._params, key, self._observations, self._legal, self._search_config)
            actions, policies, values = jax.device_get((result.action, result.action_weights, result.value))
            searched = time.perf_counter()
            search_seconds += searched - observed
            game_seconds += observed - started
            self._step(actions, policies, values)
            stepped = time.perf_counter()
            game_seconds += stepped - searched
            self._moves += len(self._slots)
            made += len(self._slots)
            self._write_pending()
            replay_seconds += time.perf_counter() - stepped
        annealing_seconds = self._anneal_one()
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

    def _observe(self) -> None:
        """Fills the batch of observations and legal moves."""
        turns = [slot.compiled for slot in self._slots]
        self._crew.observe(turns, self._observations, self._legal)

    def _step(self, actions: np.ndarray, policies: np.ndarray, values: np.ndarray) -> None:
        """Moves all slots by the search's results, `[B]`, `[B, M]` and `[B]`; queues their steps."""
        for slot, action in zip(self._slots, actions.tolist(), strict=True):
            slot.ask(action)
        self._crew.play([slot.compiled for slot in self._slots])
        for index, slot in enumerate(self._slots):
            moved = slot.move(self._observations[index], policies[index], float(values[index]), self._version)
            self._pending.extend((index, step) for step in moved.steps)
            if moved.ends:
                self._pending.append((index, _End(cut=moved.steps[-1].discount != 0.0)))
            if moved.result is not None:
                self._episodes.append(moved.result)

    def _anneal_one(self) -> float:
        """Anneals the next program for a slice; returns the seconds that this took."""
        if not self._annealing_config.accesses:
            return 0.0
        begin = time.perf_counter()
        index = self._slices % len(self._programs)
        self._slices += 1
        if index not in self._annealing:
            self._annealing[index] = Annealing(self._programs[index], self._annealing_config, self._seed + index)
        self._annealing[index].step()
        result = report_best_line(self._programs[index], self._version)
        if result is not None:
            self._episodes.append(result)
        return time.perf_counter() - begin

    def _write_pending(self) -> None:
        """Hands the queued steps to their writers; after a `ReplayTimeout` the rest stays queued."""
        while self._pending:
            index, step = self._pending[0]
            if isinstance(step, _End):
                self._writers[index].end_episode(step.cut)
            else:
                self._writers[index].append(step)
            self._pending.popleft()

    def state(self) -> dict[str, Any]:
        """Returns the actor's state as plain JSON values; after `restore` it continues bit for bit.

        Steps that a `ReplayTimeout` has left queued are not part of the state.
        """
        return {
            "moves": self._moves,
            "key": np.asarray(jax.random.key_data(self._key)).tolist(),
            "lines": self._programs.lines(),
            "slots": [slot.state() for slot in self._slots],
            "slices": self._slices,
            "annealing": {str(index): annealing.state() for index, annealing in self._annealing.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned. The writers must be new, or restored to the same moment.

        Raises:
          UserError: the state belongs to an actor with other games or programs.
        """
        if "slots" not in state:
            raise UserError("actor: the saved state is of an older version, which played otherwise; start a new run")
        if len(state["slots"]) != len(self._slots):
            raise UserError(
                f"actor: the saved state has {len(state['slots'])} games, the configuration {len(self._slots)}"
            )
        self._moves = int(state["moves"])
        self._key = jax.random.wrap_key_data(jnp.asarray(state["key"], jnp.uint32))
        self._programs.restore(state["lines"])
        self._slices = int(state["slices"])
        for name, where in state["annealing"].items():
            annealing = self._annealing[int(name)] = Annealing(
                self._programs[int(name)], self._annealing_config, self._seed
            )
            annealing.restore(where)
        for index, (slot, where) in enumerate(zip(self._slots, state["slots"], strict=True)):
            try:
                slot.restore(where)
            except (KeyError, ValueError) as error:
                raise UserError(
                    f"actor: the saved line of play of game {index} is not legal on program "
                    f"{slot.game.program.name!r}: the program, the rules or actor.branch.share have changed; start a "
                    "new run"
                ) from error
