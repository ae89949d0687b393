"""The game's kernels: what Python calls, and what compiled players call through the fields of a structure."""

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, vector
from ..compiled.struct import Struct, array, function, one, part
from . import legality, observation, offsets, outcome, play, rules
from .instructions import catch_up
from .moves import COPY, DROP, NO_COPY, NO_MOVE
from .options import ANY_OFFSET, OPTIONS, Options
from .outcome import Scoring
from .state import State
from .tables import Tables


@kernel(Tables, State)
def reset(tables: Tables, state: State) -> None:
    """Sets `state` to the beginning of a game."""
    rules.reset(tables, state)


@kernel(Tables, State, OPTIONS, int, returns=int)
def advance(tables: Tables, state: State, options: Options, move: int) -> int:
    """Makes a move and plays on to the next decision (`rules.advance`)."""
    return rules.advance(tables, state, options, move)


@kernel(Tables, State, OPTIONS, int, bool, returns=int)
def look(tables: Tables, state: State, options: Options, named: int, any_wait: bool) -> int:
    """Finishes the instructions before the access to decide next and fills `options` for it (`legality.legal_moves`).
    Returns how many moves are legal; 0 when the game is over."""
    if not catch_up(tables, state):
        return 0
    return legality.legal_moves(tables, state, options, named, any_wait)


@kernel(Tables, State, OPTIONS, int)
def make(tables: Tables, state: State, options: Options, move: int) -> None:
    """Makes a move as `look` has planned it, and does not play on (`play.play`)."""
    play.play(tables, state, options, move)


@kernel(Tables, State, OPTIONS, returns=int)
def own_move(tables: Tables, state: State, options: Options) -> int:
    """Returns the move that the game itself makes (`rules.own_move`)."""
    return rules.own_move(tables, state, options)


@kernel(Tables, State, int, returns=int)
def offset_now(tables: Tables, state: State, access: int) -> int:
    """Returns the offset that the buffer of an access may take from its instruction on, where it may evict residents;
    -1 for none (`offsets.find_offset`)."""
    t = tables.access[access].instruction
    offset, _ = offsets.find_offset(tables, state, access, t, True, False, ANY_OFFSET)
    return int(offset)


@kernel(Tables, State, OPTIONS, vector(np.float32))
def observe(tables: Tables, state: State, options: Options, out: np.ndarray) -> None:
    """Fills the observation at a decision (`observation.observe`)."""
    observation.observe(tables, state, options, out)


@kernel(Tables, Scoring, State, returns=float)
def judge(tables: Tables, scoring: Scoring, state: State) -> float:
    """Returns the seconds by which the objective judges a finished game (`outcome.outcome`)."""
    return outcome.outcome(tables, scoring, state)


@kernel(Tables, Scoring, State)
def list_copies(tables: Tables, scoring: Scoring, state: State) -> None:
    """Fills the schedule of `scoring` with the copies of a finished game's mapping (`outcome.list_copies`)."""
    outcome.list_copies(tables, state, scoring)


class CompiledGame(Struct):
    """A game as compiled players take it.

    Attributes:
      tables, state, options: the game.
      block: the bytes of the state.
      reset, advance, look, make: the kernels.
    """

    tables: Tables = part(Tables)
    state: State = part(State)
    options: Options = one(OPTIONS)
    block: NDArray[np.uint8] = array(np.uint8, 1)
    reset = function(reset)
    advance = function(advance)
    look = function(look)
    make = function(make)


@kernel(CompiledGame, vector(np.int64), vector(np.int64), returns=int)
def play_moves(game: CompiledGame, moves: np.ndarray, taken: np.ndarray) -> int:
    """Plays a whole game: `moves[k]` at decision `k`, else the first legal move of NoCopy, Drop, Copy.

    Returns the number of decisions, below 0 if the game is broken; `taken` receives the moves made.
    """
    tables, state, options = game.tables, game.state, game.options
    game.reset(tables, state)
    choices = game.advance(tables, state, options, NO_MOVE)
    legal = options.legal
    decisions = 0
    while choices > 0:
        move = moves[decisions] if decisions < len(moves) else NO_MOVE
        if move < 0 or not legal[move]:
            move = NO_COPY if legal[NO_COPY] else (DROP if legal[DROP] else COPY)
        taken[decisions] = move
        decisions += 1
        choices = game.advance(tables, state, options, move)
    return decisions if choices == 0 else -1
