"""Self-play of the residency game, in rounds."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.program.program import Program
from ...env.residency.game import Sizes
from ...env.residency.seat import play_turns
from ...learner.networks.network import Network, Params
from ...replay.interface import SegmentWriter
from ...solvers.learned.score import Score, make_score
from ..search.search import SearchConfig
from .config import ActorConfig
from .episode import EpisodeResult
from .loop import Actor
from .residency_config import EXACT
from .residency_programs import ResidencyPool, ResidencyProgram
from .residency_slot import ResidencySlot
from .threads import Threads

# Scores of fewer changes are not worth a thread.
_MANY_CHANGES = 5_000


class ResidencyActor(Actor):
    """Plays `config.games` games of rounds side by side."""

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
        sizes = Sizes(config.residency.candidates)
        super().__init__(network, search_config, config.games, (sizes.observation, sizes.actions), writers, seed)
        self._score: Score | None = None
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
        # The exact outcomes of the moves at the root of the search.
        self._exact = config.residency.root == EXACT
        self._outcomes = np.zeros((config.games, sizes.actions), np.float32)

    def set_parameters(self, params: Params, version: int) -> None:
        """See `Actor.set_parameters`."""
        super().set_parameters(params, version)
        self._score = make_score(jax.device_get(params))

    def offer_lines(self, lines: Mapping[str, tuple[float, Sequence[int]]]) -> None:
        """See `Actor.offer_lines`; a line is the preferences of a plan."""
        for name, (latency_s, plan) in lines.items():
            self._pool.offer(name, latency_s, plan)

    def _observe(self) -> NDArray[np.float32] | None:
        assert self._score is not None
        self._begin_rounds(self._score)
        for index, slot in enumerate(self._slots):
            slot.observe(self._observations[index], self._legal[index], self._outcomes[index])
        return self._outcomes if self._exact else None

    def _step(self, actions: NDArray[np.int32], policies: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        for index, slot in enumerate(self._slots):
            slot.choose(int(actions[index]), self._observations[index], policies[index])
        self._play_turns(self._slots)
        for index, slot in enumerate(self._slots):
            self._take(index, slot)

    def _conclude(self) -> float:
        for slot in self._slots:
            self._report_best(slot.context)
        return 0.0

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
        self._queue(index, played.steps, ends=bool(played.steps))
        if played.game_s is not None:
            self._report(context, played.game_s, [], finished=True)
            self._report_best(context)

    def _report_best(self, context: ResidencyProgram) -> None:
        """Reports the best plan of a program if it is new."""
        seconds, plan = context.best
        if seconds < self._reported_s(context):
            self._pool.reported_s[context.program.name] = seconds
            self._report(context, seconds, plan.tolist(), finished=False)

    def _report(self, context: ResidencyProgram, seconds: float, plan: list[int], finished: bool) -> None:
        self._episodes.append(
            EpisodeResult(
                program=context.program.name,
                latency_s=seconds,
                score=0.0,
                actions=plan,
                decisions=0,
                evictions=0,
                stalled_copies=0,
                version=self._version,
                branch=True,
                finished=finished,
            )
        )

    def _reported_s(self, context: ResidencyProgram) -> float:
        return self._pool.reported_s.get(context.program.name, np.inf)

    def state(self) -> dict[str, Any]:
        """See `Actor.state`."""
        return {
            **super().state(),
            "plans": self._pool.saved(),
            "reported": dict(self._pool.reported_s),
            "rounds": [slot.state() for slot in self._slots],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Actor.restore`."""
        rounds = self._games_of(state, "rounds", "the saved state is of an actor that plays another game")
        super().restore(state)
        self._pool.restore(state["plans"])
        self._pool.reported_s = {name: float(seconds) for name, seconds in state["reported"].items()}
        for index, (slot, where) in enumerate(zip(self._slots, rounds, strict=True)):
            try:
                slot.restore(where)
            except (KeyError, ValueError, IndexError) as error:
                raise UserError(
                    f"actor: the saved round of game {index} does not fit program {slot.context.program.name!r}: the "
                    "program or the rules have changed; start a new run"
                ) from error
