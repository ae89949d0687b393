"""The best verified mapping of every program that was ever seen: the deliverable of a run."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...env.errors import FormatError
from ...env.game.game import play_line
from ...env.program.mapping import Mapping
from ...env.program.mapping_file import read_mapping, write_mapping
from ...env.program.program import Program
from ...env.verifier.verify import verify
from ...solvers.common.fill import fill
from .config import ActorConfig
from .episode import EpisodeResult


@dataclass(frozen=True, eq=False)
class Best:
    """The best mapping of one program.

    Attributes:
      mapping: verified; its `origin` says which line of play made it.
      latency_s: simulated seconds, steady, as the objective counts them (`objective.Judge`).
      production_s: those of XLA's own mapping, or None.
      played_s: what the game that made it came to, before the room that it leaves was filled; infinite where none did.
    """

    mapping: Mapping
    latency_s: float
    production_s: float | None
    played_s: float


class BestMappings:
    """Keeps the best mapping per program under the objective.

    What is offered is played again, verified and simulated before it counts.
    """

    def __init__(self, programs: Iterable[Program], config: ActorConfig) -> None:
        """Begins with what XLA's algorithm makes under other orders, where that is tried and beats production."""
        self._programs = {program.name: program for program in programs}
        self._games = {name: config.game(program) for name, program in self._programs.items()}
        self._best: dict[str, Best] = {}
        self._production_s = {name: game.judge.production_s for name, game in self._games.items()}
        # Seconds that a game has to undercut to be looked at.
        self._bar_s: dict[str, float] = {}
        for name, program in self._programs.items():
            ordered = config.ordered(program)
            if ordered is not None:
                self._begin_with(name, ordered)

    def __getitem__(self, program: str) -> Best:
        return self._best[program]

    def __contains__(self, program: object) -> bool:
        return program in self._best

    def items(self) -> list[tuple[str, Best]]:
        """Returns name and best of every program that has one."""
        return sorted(self._best.items())

    def offer(self, episode: EpisodeResult, origin: dict[str, Any] | None = None) -> bool:
        """Takes a finished game; returns whether its mapping, with the room filled that is left, is the new best.

        Raises:
          RuntimeError: its mapping does not verify, or is slower than it says: the game broke the physics.
        """
        known = self._best.get(episode.program)
        if not episode.actions or episode.latency_s >= self._bar_s.get(episode.program, np.inf):
            return False
        program, game = self._programs[episode.program], self._games[episode.program]
        play_line(game, episode.actions)
        made_by = {"solver": "muzero", "moves": "".join(map(str, episode.actions)), "version": episode.version}
        if not abs(game.latency_s - episode.latency_s) <= 1e-9 * game.latency_s:
            raise RuntimeError(
                f"a game on {program.name!r} says {episode.latency_s * 1e6:.3f} us, its line of play replays to "
                f"{game.latency_s * 1e6:.3f} us"
            )
        mapping = fill(game.judge, game.mapping({**made_by, **(origin or {})}))
        violations = verify(program, game.target, mapping)
        if violations:
            raise RuntimeError(f"a game on {program.name!r} made an illegal mapping: {violations[0].message}")
        latency_s = game.judge.judge(mapping)
        if known is not None and latency_s >= known.latency_s:
            if not np.isfinite(known.played_s):
                self._bar_s[program.name] = episode.latency_s
            return False
        self._keep(program.name, mapping, latency_s, episode.latency_s)
        return True

    def _begin_with(self, name: str, mapping: Mapping) -> None:
        latency_s, production_s = self._games[name].judge.judge(mapping), self._production_s[name]
        if production_s is None or latency_s < production_s:
            self._keep(name, mapping, latency_s, np.inf)

    def _keep(self, name: str, mapping: Mapping, latency_s: float, played_s: float) -> None:
        self._best[name] = Best(mapping, latency_s, self._production_s[name], played_s)
        self._bar_s[name] = played_s

    def save(self, folder: Path, names: Iterable[str] | None = None) -> list[Path]:
        """Writes `NAME.mapping.json.gz` for every program that has a mapping, or for `names` of them only, and returns
        the paths."""
        paths = []
        for name in [name for name, _ in self.items()] if names is None else names:
            best = self._best[name]
            paths.append(folder / f"{name}.mapping.json.gz")
            write_mapping(best.mapping, self._programs[name], paths[-1])
        return paths

    def load(self, folder: Path) -> None:
        """Takes over what `save` wrote, verified anew; programs without a file are left alone.

        Raises:
          UserError: a file is not a mapping of its program, or not a legal one.
        """
        for name, program in self._programs.items():
            path = folder / f"{name}.mapping.json.gz"
            if not path.exists():
                continue
            mapping = read_mapping(path, program)
            violations = verify(program, program.target, mapping)
            if violations:
                raise FormatError(f"{path}: is not a legal mapping ({violations[0].message}); delete it")
            latency_s = self._games[name].judge.judge(mapping)
            known = self._best.get(name)
            if known is None or latency_s < known.latency_s:
                self._keep(name, mapping, latency_s, self._played_s(name, mapping))

    def lines(self, below_s: dict[str, float]) -> dict[str, tuple[float, list[int]]]:
        """Returns seconds and moves of the game behind each best mapping, as far as its rules are still in force and it
        is better than the seconds in `below_s`, by program."""
        return {
            name: (best.played_s, [int(move) for move in str(best.mapping.origin["moves"])])
            for name, best in self._best.items()
            if best.played_s < below_s.get(name, np.inf)
        }

    def _played_s(self, name: str, mapping: Mapping) -> float:
        """Returns the seconds of the game that made a mapping; infinite if it cannot be played now."""
        moves = str(mapping.origin.get("moves", ""))
        if not moves or not set(moves) <= set("012"):
            return np.inf
        game = self._games[name]
        taken = play_line(game, [int(move) for move in moves])
        return game.latency_s if "".join(map(str, taken)) == moves else np.inf
