"""The programs of an actor. What playing one needs is worked out when its turn comes: of a hundred, the first games
begin at once."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...env.errors import UserError
from ...env.game.game import MallocGame
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from .played_program import PlayedProgram


class PlayedPrograms:
    """A sequence of `PlayedProgram`s, each made when it is first asked for."""

    def __init__(self, games: Sequence[MallocGame], followed: Callable[[Program], Mapping | None]) -> None:
        """Takes over a game on each program, by the rules to play by.

        Args:
          games: the games.
          followed: the mapping of a program that its first line follows if that beats the greedy player, or None.

        Raises:
          UserError: a program leaves nothing to decide.
        """
        for game in games:
            if game.done:
                raise UserError(f"workload {game.program.name!r} leaves nothing to decide; choose another")
        self._games, self._followed = list(games), followed
        self._made: dict[int, PlayedProgram] = {}
        self._index = {game.program.name: index for index, game in enumerate(games)}
        # Lines that were offered before their program's turn came.
        self._offered: dict[int, tuple[float, list[int]]] = {}

    def __len__(self) -> int:
        return len(self._games)

    def __getitem__(self, index: int) -> PlayedProgram:
        if index not in self._made:
            if not 0 <= index < len(self._games):
                raise IndexError(index)
            game = self._games[index]
            self._made[index] = PlayedProgram(game.clone(), self._followed(game.program))
            if index in self._offered:
                latency_s, actions = self._offered.pop(index)
                self._made[index].offer(actions, latency_s)
        return self._made[index]

    def __iter__(self) -> Iterator[PlayedProgram]:
        return (self[index] for index in range(len(self)))

    def offer(self, name: str, latency_s: float, actions: Sequence[int]) -> None:
        """Takes a line of play of a program, if it is played here, as its best if it is.

        Raises:
          UserError: the line is not legal.
        """
        index = self._index.get(name)
        if index is None:
            return
        known = self._made[index].best[0] if index in self._made else self._offered.get(index, (float("inf"),))[0]
        if latency_s < known:
            self._accept(index, latency_s, actions)

    def lines(self) -> list[list[Any] | None]:
        """Returns seconds and moves of the best line of each program as plain JSON values, None where none is known."""
        return [self._line(index) for index in range(len(self))]

    def restore(self, lines: Sequence[Any]) -> None:
        """Takes over what `lines` returned. Raises UserError if a line is not legal, or of other programs."""
        if len(lines) != len(self):
            raise UserError(f"actor: the saved state has {len(lines)} programs, the configuration {len(self)}")
        for index, line in enumerate(lines):
            if line is not None:
                self._accept(index, float(line[0]), [int(move) for move in line[1]])

    def _accept(self, index: int, latency_s: float, actions: Sequence[int]) -> None:
        _check_line(self._games[index], actions)
        if index in self._made:
            self._made[index].offer(actions, latency_s)
        else:
            self._offered[index] = (latency_s, list(actions))

    def _line(self, index: int) -> list[Any] | None:
        if index in self._made:
            latency_s, actions = self._made[index].best
            return [latency_s, "".join(map(str, actions.tolist()))]
        if index in self._offered:
            latency_s, moves = self._offered[index]
            return [latency_s, "".join(map(str, moves))]
        return None


def _check_line(rules: MallocGame, actions: Sequence[int]) -> None:
    """Raises UserError if `actions` are no line of play of a whole game."""
    game = rules.clone()
    game.reset()
    try:
        for action in actions:
            game.step_unpaid(action)
    except ValueError as error:
        raise UserError(f"actor: a line of play is not legal on program {game.program.name!r}: {error}") from error
    if not game.done:
        raise UserError(f"actor: a line of play stops before the end of program {game.program.name!r}")
