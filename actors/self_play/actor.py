"""Self-play of mallocGame itself, access by access."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...env.program.program import Program
from ...learner.networks.network import Network
from ...replay.interface import SegmentWriter
from ..search.search import SearchConfig
from .annealing import Annealing
from .batch import Crew
from .branch import Branches
from .config import ActorConfig
from .episode import Player, WholeGames, report_best_line
from .loop import Actor
from .programs import ProgramPool


class SelfPlayActor(Actor):
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
        super().__init__(network, search_config, config.games, (OBSERVATION_SIZE, NUM_MOVES), writers, seed)
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

    def offer_lines(self, lines: Mapping[str, tuple[float, Sequence[int]]]) -> None:
        """See `Actor.offer_lines`; a line is the moves of a game."""
        for name, (latency_s, actions) in lines.items():
            self._programs.offer(name, latency_s, actions)

    def _observe(self) -> None:
        turns = [slot.compiled for slot in self._slots]
        self._crew.observe(turns, self._observations, self._legal)

    def _step(self, actions: NDArray[np.int32], policies: NDArray[np.float32], values: NDArray[np.float32]) -> None:
        for slot, action in zip(self._slots, actions.tolist(), strict=True):
            slot.ask(action)
        self._crew.play([slot.compiled for slot in self._slots])
        for index, slot in enumerate(self._slots):
            moved = slot.move(self._observations[index], policies[index], float(values[index]), self._version)
            self._queue(index, moved.steps, moved.ends)
            if moved.result is not None:
                self._episodes.append(moved.result)

    def _conclude(self) -> float:
        """Anneals the next program for a slice; returns the seconds that this took."""
        if not self._annealing_config.accesses:
            return 0.0
        begin = time.perf_counter()
        index = self._slices % len(self._programs)
        self._slices += 1
        self._annealing_of(index).step()
        result = report_best_line(self._programs[index], self._version)
        if result is not None:
            self._episodes.append(result)
        return time.perf_counter() - begin

    def _annealing_of(self, index: int) -> Annealing:
        """Returns the annealing of a program, which begins when it is first asked for."""
        if index not in self._annealing:
            self._annealing[index] = Annealing(self._programs[index], self._annealing_config, self._seed + index)
        return self._annealing[index]

    def state(self) -> dict[str, Any]:
        """See `Actor.state`."""
        return {
            **super().state(),
            "lines": self._programs.lines(),
            "slots": [slot.state() for slot in self._slots],
            "slices": self._slices,
            "annealing": {str(index): annealing.state() for index, annealing in self._annealing.items()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """See `Actor.restore`."""
        games = self._games_of(state, "slots", "the saved state is of an older version, which played otherwise")
        super().restore(state)
        self._programs.restore(state["lines"])
        self._slices = int(state["slices"])
        for name, where in state["annealing"].items():
            self._annealing_of(int(name)).restore(where)
        for index, (slot, where) in enumerate(zip(self._slots, games, strict=True)):
            try:
                slot.restore(where)
            except (KeyError, ValueError) as error:
                raise UserError(
                    f"actor: the saved line of play of game {index} is not legal on program "
                    f"{slot.game.program.name!r}: the program, the rules or actor.branch.share have changed; start a "
                    "new run"
                ) from error
