"""The store of a run's results: the best verified mapping of each program."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...env.errors import FormatError
from ...env.game.game import MallocGame, play_line
from ...env.game.moves import NUM_MOVES
from ...env.game.plan import NUM_PREFERENCES, digits_of, plan_of_digits
from ...env.program.mapping import Mapping
from ...env.program.mapping_file import read_mapping, write_mapping
from ...env.program.program import Program
from ...env.verifier.verify import verify
from ...solvers.common.budget import ENDLESS
from ...solvers.common.fill import fill
from ...solvers.common.task import Task
from .config import ACCESS, RESIDENCY, ActorConfig
from .episode import EpisodeResult


@dataclass(frozen=True, eq=False)
class BestMapping:
    """The best mapping of one program.

    Attributes:
      mapping: the mapping, verified; its `origin` holds the moves, or the plan, that made it.
      latency_s: simulated seconds in the steady state, by the objective (`objective.Judge`).
      production_s: the same of XLA's own mapping, or None.
      played_s: judged seconds of the game that made it, before free memory was filled; infinite where no game did.
    """

    mapping: Mapping
    latency_s: float
    production_s: float | None
    played_s: float


class BestMappings:
    """Keeps the best mapping of each program by the objective.

    Every game that is offered is replayed, verified and simulated before it counts.
    """

    def __init__(self, programs: Iterable[Program], config: ActorConfig) -> None:
        """Begins with the mappings of XLA's algorithm under other orders (`config.orders`) that beat production."""
        self._config = config
        self._programs = {program.name: program for program in programs}
        # Made when they are first needed: a run may have hundreds of programs.
        self._games: dict[str, MallocGame] = {}
        self._tasks: dict[str, Task] = {}
        self._best: dict[str, BestMapping] = {}
        self._judges = {name: config.judge(program) for name, program in self._programs.items()}
        # Judged seconds that a game has to undercut to be replayed.
        self._bar_s: dict[str, float] = {}
        for name, program in self._programs.items():
            ordered = config.ordered(program)
            if ordered is not None:
                self._begin_with(name, ordered)

    def __getitem__(self, program: str) -> BestMapping:
        return self._best[program]

    def __contains__(self, program: object) -> bool:
        return program in self._best

    def items(self) -> list[tuple[str, BestMapping]]:
        """Returns name and best mapping of every program that has one, by name."""
        return sorted(self._best.items())

    def offer(self, episode: EpisodeResult, origin: dict[str, Any] | None = None) -> bool:
        """Takes a finished game; returns whether its mapping, after filling free memory, is the new best.

        Raises:
          RuntimeError: the mapping does not verify, or its latency is not the reported one: the game broke the physics.
        """
        known = self._best.get(episode.program)
        if not episode.actions or episode.latency_s >= self._bar_s.get(episode.program, np.inf):
            return False
        program, judge = self._programs[episode.program], self._judges[episode.program]
        played_s, mapping = self._replay(episode, origin or {})
        if not abs(played_s - episode.latency_s) <= 1e-9 * played_s:
            raise RuntimeError(
                f"a game on {program.name!r} says {episode.latency_s * 1e6:.3f} us, its moves replay to "
                f"{played_s * 1e6:.3f} us"
            )
        violations = verify(program, program.target, mapping)
        if violations:
            raise RuntimeError(f"a game on {program.name!r} made an illegal mapping: {violations[0].message}")
        latency_s = judge.judge(mapping)
        if known is not None and latency_s >= known.latency_s:
            if not np.isfinite(known.played_s):
                self._bar_s[program.name] = episode.latency_s
            return False
        self._keep(program.name, mapping, latency_s, episode.latency_s)
        return True

    def _replay(self, episode: EpisodeResult, origin: dict[str, Any]) -> tuple[float, Mapping]:
        """Plays a finished game again; returns its judged seconds, and its mapping with free memory filled."""
        made_by = {"solver": "muzero", "version": episode.version, **origin}
        line = np.array(episode.actions, np.int8)
        digits = digits_of(line)
        if self._config.decisions == RESIDENCY:
            task = self._task(episode.program)
            seconds = task.play(line)
            task.game.take_over()
            mapping = task.game.mapping({**made_by, "plan": digits})
            return seconds, fill(task.game.judge, mapping)
        game = self._game(episode.program)
        play_line(game, episode.actions)
        return game.latency_s, fill(game.judge, game.mapping({**made_by, "moves": digits}))

    def _game(self, name: str) -> MallocGame:
        if name not in self._games:
            self._games[name] = self._config.game(self._programs[name])
        return self._games[name]

    def _task(self, name: str) -> Task:
        if name not in self._tasks:
            program = self._programs[name]
            game = self._config.game(program)
            self._tasks[name] = Task(program, None, self._config.objective, ENDLESS, 0, game=game)
        return self._tasks[name]

    def _begin_with(self, name: str, mapping: Mapping) -> None:
        latency_s, production_s = self._judges[name].judge(mapping), self._judges[name].production_s
        if production_s is None or latency_s < production_s:
            self._keep(name, mapping, latency_s, np.inf)

    def _keep(self, name: str, mapping: Mapping, latency_s: float, played_s: float) -> None:
        self._best[name] = BestMapping(mapping, latency_s, self._judges[name].production_s, played_s)
        self._bar_s[name] = played_s

    def save(self, folder: Path, names: Iterable[str] | None = None) -> list[Path]:
        """Writes `NAME.mapping.json.gz` of each program that has a mapping, or of `names`; returns the paths."""
        paths = []
        for name in [name for name, _ in self.items()] if names is None else names:
            best = self._best[name]
            paths.append(folder / f"{name}.mapping.json.gz")
            write_mapping(best.mapping, self._programs[name], paths[-1])
        return paths

    def load(self, folder: Path) -> None:
        """Takes over the mappings that `save` wrote, verified again, where they are better.

        Raises:
          UserError: a file holds no legal mapping of its program.
        """
        for name, program in self._programs.items():
            path = folder / f"{name}.mapping.json.gz"
            if not path.exists():
                continue
            mapping = read_mapping(path, program)
            violations = verify(program, program.target, mapping)
            if violations:
                raise FormatError(f"{path}: is not a legal mapping ({violations[0].message}); delete it")
            latency_s = self._judges[name].judge(mapping)
            known = self._best.get(name)
            if known is None or latency_s < known.latency_s:
                self._keep(name, mapping, latency_s, self._played_s(name, mapping))

    def lines(self, below_s: dict[str, float]) -> dict[str, tuple[float, list[int]]]:
        """Returns judged seconds and moves of the games behind the best mappings, by program name.

        Left out are games that the rules no longer allow, and those not below the seconds of `below_s`.
        """
        return {
            name: (best.played_s, [int(digit) for digit in str(best.mapping.origin[self._key])])
            for name, best in self._best.items()
            if best.played_s < below_s.get(name, np.inf)
        }

    @property
    def _key(self) -> str:
        """The field of a mapping's origin that holds the line of play: moves, or the plan of the residency game."""
        return "plan" if self._config.decisions == RESIDENCY else "moves"

    def _played_s(self, name: str, mapping: Mapping) -> float:
        """Returns the judged seconds of the game that made a mapping; infinite if the rules no longer allow it."""
        digits = str(mapping.origin.get(self._key, ""))
        most = NUM_MOVES if self._config.decisions == ACCESS else NUM_PREFERENCES
        if not digits or not set(digits) <= set("0123456789"[:most]):
            return np.inf
        line = [int(digit) for digit in digits]
        if self._config.decisions == RESIDENCY:
            fits = len(line) == self._programs[name].num_accesses
            return self._task(name).play(plan_of_digits(digits)) if fits else np.inf
        game = self._game(name)
        taken = play_line(game, line)
        return game.latency_s if "".join(map(str, taken)) == digits else np.inf
