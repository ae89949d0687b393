"""The self-play loop of the residency game: many rounds at once, one batched search per move."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...env.errors import UserError
from ...env.program.program import Program
from ...env.residency.game import Sizes
from ...env.residency.seat import play_turns
from ...learner.networks.network import Network, Params
from ...replay.interface import SegmentWriter
from ...replay.segment import Step
from ...solvers.learned.score import Score, make_score
from ..search.search import SearchConfig, search
from .actor import PlayReport
from .config import ActorConfig
from .episode import EpisodeResult
from .residency_config import EXACT
from .residency_programs import ResidencyPool, ResidencyProgram
from .residency_slot import ResidencySlot
from .threads import Threads

# Scores of fewer changes are not worth a thread.
_MANY_CHANGES = 5_000


class ResidencyActor:
    """Plays `config.games` games of rounds side by side. Its interface is that of `SelfPlayActor`."""

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
          programs: the programs, at least one.
          network: the network; `set_parameters` gives its parameters.
          search_config: settings of the search.
          config: settings of the games.
          writers: one per game.
          seed: of everything random in the actor.

        Raises:
          UserError: a program leaves nothing to decide, or there are too few writers.
        """
        if len(writers) != config.games:
            raise UserError(f"actor: {config.games} games need as many writers, not {len(writers)}")
        self._network, self._search_config, self._config = network, search_config, config
        self._writers = list(writers)
        self._key = jax.random.key(seed)
        self._params: Params | None = None
        self._score: Score | None = None
        self._version = -1
        self._moves = 0
        self._pool = ResidencyPool(programs, config)
        self._threads = Threads(config.games, config.threads)
        # Actors begin with different programs, and slots spread over them.
        offset = int(np.random.default_rng(seed).integers(len(programs)))
        self._slots = [
            ResidencySlot(
                self._pool, offset + slot * max(1, len(programs) // config.games), config.residency, seed + slot
            )
            for slot in range(config.games)
        ]
        sizes = Sizes(config.residency.candidates)
        self._observations = np.zeros((config.games, sizes.observation), np.float32)
        self._legal = np.zeros((config.games, sizes.actions), np.bool_)
        self._outcomes = np.zeros((config.games, sizes.actions), np.float32)
        self._pending: deque[tuple[int, Step]] = deque()
        self._episodes: list[EpisodeResult] = []

    @property
    def moves(self) -> int:
        """Searched moves so far."""
        return self._moves

    def set_parameters(self, params: Params, version: int) -> None:
        """Replaces the parameters; `version` is the step of the learner that made them."""
        self._params, self._version = params, version
        self._score = make_score(jax.device_get(params))

    def offer_lines(self, lines: Mapping[str, tuple[float, Sequence[int]]]) -> None:
        """Takes over plans of other actors, judged seconds and preferences by program name.

        Raises:
          UserError: a plan does not fit its program.
        """
        for name, (latency_s, plan) in lines.items():
            self._pool.offer(name, latency_s, plan)

    def play(self, moves: int) -> PlayReport:
        """Makes at least `moves` moves, a multiple of the number of games.

        Raises:
          ReplayTimeout: the replay takes no more steps for now. Nothing is lost: call again.
          ValueError: `set_parameters` has not been called.
        """
        if self._params is None or self._score is None:
            raise ValueError("set_parameters comes before play")
        begin = time.perf_counter()
        made = 0
        search_seconds = game_seconds = 0.0
        self._write_pending()
        replay_seconds = time.perf_counter() - begin
        exact = self._config.residency.root == EXACT
        while made < moves:
            started = time.perf_counter()
            self._begin_rounds(self._score)
            for index, slot in enumerate(self._slots):
                slot.observe(self._observations[index], self._legal[index], self._outcomes[index])
            observed = time.perf_counter()
            key = jax.random.fold_in(self._key, self._moves)
            outcomes = self._outcomes if exact else None
            found = search(
                self._network, self._params, key, self._observations, self._legal, self._search_config, outcomes
            )
            actions, policies = jax.device_get((found.action, found.action_weights))
            searched = time.perf_counter()
            for index, slot in enumerate(self._slots):
                slot.choose(int(actions[index]), self._observations[index], policies[index])
            self._play_turns(self._slots)
            for index, slot in enumerate(self._slots):
                self._take(index, slot)
            stepped = time.perf_counter()
            search_seconds += searched - observed
            game_seconds += (observed - started) + (stepped - searched)
            self._moves += len(self._slots)
            made += len(self._slots)
            self._write_pending()
            replay_seconds += time.perf_counter() - stepped
        for slot in self._slots:
            if slot.context.best[0] < self._reported_s(slot.context):
                self._report(slot.context)
        episodes, self._episodes = self._episodes, []
        return PlayReport(
            moves=made,
            version=self._version,
            seconds=time.perf_counter() - begin,
            search_seconds=search_seconds,
            game_seconds=game_seconds,
            replay_seconds=replay_seconds,
            episodes=episodes,
        )

    def _begin_rounds(self, score: Score) -> None:
        """Begins a round wherever the last one is over."""
        asking = [slot for slot in self._slots if slot.look()]
        if asking:
            self._play_turns(asking)
            if sum(len(slot.context.changes.stay) for slot in asking) > _MANY_CHANGES:
                self._threads.each(lambda slot: slot.propose(score), asking)
            else:
                for slot in asking:
                    slot.propose(score)
        beginning = [slot for slot in self._slots if slot.begin()]
        if beginning:
            self._play_turns(beginning)
            for slot in beginning:
                slot.begun()

    def _play_turns(self, slots: Sequence[ResidencySlot]) -> None:
        self._threads.share(play_turns, np.array([slot.address for slot in slots], np.int64))

    def _take(self, index: int, slot: ResidencySlot) -> None:
        context = slot.context
        played = slot.take()
        self._pending.extend((index, step) for step in played.steps)
        if played.game_over:
            self._report(context)

    def _report(self, context: ResidencyProgram) -> None:
        """Reports the best plan of a program; its digits only if it is new."""
        seconds, plan = context.best
        new = seconds < self._reported_s(context)
        self._pool.reported_s[context.program.name] = min(seconds, self._reported_s(context))
        self._episodes.append(
            EpisodeResult(
                program=context.program.name,
                latency_s=seconds,
                score=0.0,
                actions=plan.tolist() if new else [],
                decisions=0,
                evictions=0,
                stalled_copies=0,
                version=self._version,
                branch=True,
            )
        )

    def _reported_s(self, context: ResidencyProgram) -> float:
        return self._pool.reported_s.get(context.program.name, np.inf)

    def _write_pending(self) -> None:
        """Hands the queued steps to their writers; after a `ReplayTimeout` the rest stays queued."""
        while self._pending:
            index, step = self._pending[0]
            self._writers[index].append(step)
            if step.discount == 0.0:
                self._writers[index].end_episode()
            self._pending.popleft()

    def state(self) -> dict[str, Any]:
        """Returns the actor's state as plain JSON values; after `restore` it continues bit for bit.

        Steps that a `ReplayTimeout` has left queued are not part of the state.
        """
        return {
            "moves": self._moves,
            "key": np.asarray(jax.random.key_data(self._key)).tolist(),
            "plans": self._pool.saved(),
            "reported": dict(self._pool.reported_s),
            "rounds": [slot.state() for slot in self._slots],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restores what `state` returned. The writers must be new, or restored to the same moment.

        Raises:
          UserError: the state belongs to an actor with other games or programs.
        """
        if "rounds" not in state:
            raise UserError("actor: the saved state is of an actor that plays another game; start a new run")
        if len(state["rounds"]) != len(self._slots):
            raise UserError(
                f"actor: the saved state has {len(state['rounds'])} games, the configuration {len(self._slots)}"
            )
        self._moves = int(state["moves"])
        self._key = jax.random.wrap_key_data(jnp.asarray(state["key"], jnp.uint32))
        self._pool.restore(state["plans"])
        self._pool.reported_s = {name: float(seconds) for name, seconds in state["reported"].items()}
        for index, (slot, where) in enumerate(zip(self._slots, state["rounds"], strict=True)):
            try:
                slot.restore(where)
            except (KeyError, ValueError, IndexError) as error:
                raise UserError(
                    f"actor: the saved round of game {index} does not fit program {slot.context.program.name!r}: the "
                    "program or the rules have changed; start a new run"
                ) from error
