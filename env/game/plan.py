"""Plans: a preference for every access of a program, and games that follow them in compiled code.

A plan keeps its meaning when an earlier decision changes, which a list of moves does not: a decision may no longer come
up, and a forced move may become free. A preference is a move, or one of two that are not moves:

- operand: `COPY` fast memory (stay, else prefetch), `NO_COPY` stay if resident, `DROP` read from HBM, `WAIT` fast
  memory however long the instruction waits for the prefetch, `CROSS_PROGRAM_FETCH` fast memory, by a cross-program
  prefetch if the buffer is not resident. All but `NO_COPY` also ask that a buffer carried by a loop be written back
  after the loop if it is read later.
- result: `NO_COPY` fast memory, `COPY` fast memory and write-back, `DROP` HBM, `WAIT` fast memory however long the
  instruction waits for free memory.

The game rules out waits that cost more than they gain by its clock, which blends both cost models. A search under
`robust` may need such a wait: a long prefetch that `msa` waits for and `cycles` hides.

An illegal preference gives way to the nearest legal move. Trivial buffers stay in HBM, which makes games twice as fast;
`fill.py` places them in the memory that is free in the end.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled.kernel import kernel, routine, vector
from ..compiled.struct import Struct, array, function, one, part
from ..physics.objective import Judge
from ..program.program import OPERAND
from . import kernels
from .instructions import catch_up
from .kernels import CompiledGame
from .legality import legal_moves
from .moves import COPY, DROP, NO_COPY, NO_MOVE, NUM_MOVES
from .options import ANY_OFFSET, OPTIONS, Options, new_options
from .outcome import Scoring, make_scoring
from .play import play
from .records import READ_LATER
from .state import State, pooled_state
from .tables import Tables

Plan = NDArray[np.int8]

# Preferences that are not moves.
WAIT = NUM_MOVES
CROSS_PROGRAM_FETCH = NUM_MOVES + 1
NUM_PREFERENCES = NUM_MOVES + 2

# Stands for an access beyond the last.
TO_THE_END = 2**62


def digits_of(plan: NDArray[np.integer]) -> str:
    """Returns preferences, or moves, as a string of digits."""
    return "".join(map(str, plan.tolist()))


def plan_of_digits(text: str) -> Plan:
    """Returns what `digits_of` wrote. Raises ValueError if `text` holds anything but digits."""
    return np.array(list(text), np.int8)


@routine
def choose(tables: Tables, state: State, options: Options, preference: int) -> int:
    """Returns the legal move nearest to a preference at the access to decide next, and plans it in `options`."""
    access = state.now.access
    owner = tables.access[access].buffer
    free = tables.access[access].tied_to < 0
    legal = options.legal
    if tables.access[access].kind == OPERAND:
        resident = state.buffer[owner].resident == 1
        readable = state.buffer[owner].valid <= tables.access[access].instruction
        leaves = preference == DROP or (preference == NO_COPY and not resident)
        leaves = leaves or tables.access[access].in_hbm == 1
        beside = tables.access[access].beside
        if free and beside >= 0 and state.access_fast[beside]:
            return NO_COPY  # a running collective reads it there
        # The common cases need no plan.
        if free and readable and leaves:
            return DROP
        if free and resident and not leaves:
            return COPY if preference != NO_COPY and _may_be_written_back(tables, access) else NO_COPY
        legal_moves(tables, state, options, ANY_OFFSET, preference == WAIT)
        if not free:
            return NO_COPY if legal[NO_COPY] else DROP
        if resident:
            return DROP if legal[DROP] else NO_COPY
        if preference == CROSS_PROGRAM_FETCH and legal[NO_COPY]:
            return NO_COPY
        return COPY if legal[COPY] and not leaves else DROP
    if free and preference == DROP:
        return DROP
    legal_moves(tables, state, options, ANY_OFFSET, preference == WAIT)
    if preference < NUM_MOVES and legal[preference]:
        return preference
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)


@routine
def preference_of(tables: Tables, state: State, move: int) -> int:
    """Returns the preference that leads to a legal `move` at the access to decide next."""
    access = state.now.access
    if move != NO_COPY or tables.access[access].kind != OPERAND or _may_be_written_back(tables, access):
        return move
    return COPY if state.buffer[tables.access[access].buffer].resident == 1 else CROSS_PROGRAM_FETCH


@kernel(Tables, State, int, returns=int)
def preference_for(tables: Tables, state: State, move: int) -> int:
    """Returns the preference that leads to a legal move (`preference_of`)."""
    return preference_of(tables, state, move)


@routine
def _may_be_written_back(tables: Tables, access: int) -> bool:
    """Returns whether the move at this access, the first in a loop, decides on a write-back after the loop."""
    return tables.access[access].carried == READ_LATER


@routine
def is_constant(tables: Tables, access: int) -> bool:
    """Returns whether the program never writes the buffer of an access: only such a buffer is prefetched across
    programs."""
    owner = tables.access[access].buffer
    return tables.buffer[owner].is_input == 1 and tables.buffer[owner].last_result < 0


def placeable_accesses(tables: Tables) -> NDArray[np.bool_]:
    """Returns `[A]` whether an access may be placed: its buffer may and is not trivial, and its instruction lets it."""
    buffer = tables.buffer[tables.access["buffer"]]
    may = (buffer["played"] == 1) & (buffer["trivial"] == 0) & (tables.access["in_hbm"] == 0)
    return np.asarray(may)


def constant_accesses(tables: Tables) -> NDArray[np.bool_]:
    """Returns `[A]` whether the program never writes the buffer of each access (`is_constant`)."""
    buffer = tables.buffer[tables.access["buffer"]]
    return np.asarray((buffer["is_input"] == 1) & (buffer["last_result"] < 0))


@routine
def play_on(tables: Tables, state: State, options: Options, plan: np.ndarray, moves: np.ndarray, until: int) -> int:
    """Plays by `plan[A]` from where the game stands to the first access that is `until` or later, or to the game's end;
    `moves[A]` receives the moves. Returns that access, `A` at the end.

    It stops before time passes to that access: until then the next preferences may change.
    """
    while True:
        state.now.access = tables.following[state.now.access]
        access = state.now.access
        if access >= until or not catch_up(tables, state):
            return access
        moves[access] = choose(tables, state, options, plan[access])
        play(tables, state, options, moves[access])


@kernel(Tables, State, OPTIONS, vector(np.int8), vector(np.int8), int, returns=int)
def play_until(tables: Tables, state: State, options: Options, plan: np.ndarray, moves: np.ndarray, until: int) -> int:
    """Plays by a plan to a stop (`play_on`)."""
    return play_on(tables, state, options, plan, moves, until)


@kernel(Tables, State, OPTIONS, int, returns=int)
def nearest(tables: Tables, state: State, options: Options, preference: int) -> int:
    """Returns the legal move nearest to a preference (`choose`)."""
    return choose(tables, state, options, preference)


class PlanGame(Struct):
    """A game that follows plans, as compiled searches take it.

    Attributes:
      tables, state, options: the game.
      block: the bytes of the state.
      scoring: the objective.
      reset, look, make, play_until, judge: the kernels.
    """

    tables: Tables = part(Tables)
    state: State = part(State)
    options: Options = one(OPTIONS)
    block: NDArray[np.uint8] = array(np.uint8, 1)
    scoring: Scoring = part(Scoring)
    reset = function(kernels.reset)
    look = function(kernels.look)
    make = function(kernels.make)
    play_until = function(play_until)
    judge = function(kernels.judge)


def new_plan_game(tables: Tables, judge: Judge) -> PlanGame:
    """Returns a game on `tables` with a state of its own."""
    block, state = pooled_state(tables)
    return PlanGame(tables=tables, state=state, options=new_options(), block=block, scoring=make_scoring(judge))


def play_plan(game: PlanGame, plan: Plan, moves: NDArray[np.int8]) -> None:
    """Plays a whole game by `plan[A]`; `moves[A]` receives the moves."""
    kernels.reset(game.tables, game.state)
    play_until(game.tables, game.state, game.options, plan, moves, TO_THE_END)


@kernel(CompiledGame, vector(np.int64), int, vector(np.int8))
def plan_of_line(game: CompiledGame, line: np.ndarray, count: int, plan: np.ndarray) -> None:
    """Plays the `count` decisions of `line`, and fills `plan[A]` with the preferences for the moves made."""
    tables, state, options = game.tables, game.state, game.options
    game.reset(tables, state)
    decisions, before, move = 0, 0, NO_MOVE
    going = True
    while going:
        going = game.advance(tables, state, options, move) > 0
        now = state.now.access
        for access in range(before, now):  # played by the game
            plan[access] = _made(tables, state, access)
        if going:
            move = line[decisions] if decisions < count else NO_COPY
            decisions += 1
            plan[now] = preference_of(tables, state, move)
            before = now + 1


@routine
def _made(tables: Tables, state: State, access: int) -> int:
    if not state.access_fast[access]:
        return DROP
    return COPY if tables.access[access].kind == OPERAND else NO_COPY


def free_accesses(tables: Tables) -> NDArray[np.int64]:
    """Returns `[F]` the accesses that a plan decides: those of buffers that may be placed and are not trivial, unless
    they are tied to an earlier access."""
    free = placeable_accesses(tables)
    # A result written in place is tied to its operand, but its write-back is still to decide.
    decided = (tables.access["kind"] == OPERAND) | (tables.access["carried"] > 0)
    return np.flatnonzero(free & ~(decided & (tables.access["tied_to"] >= 0)))


def random_plan(tables: Tables, generator: np.random.Generator) -> Plan:
    """Returns a plan `[A]` of random preferences in random proportions, `WAIT` excluded."""
    shares = np.insert(generator.dirichlet(np.ones(NUM_PREFERENCES - 1)), WAIT, 0.0)
    return generator.choice(NUM_PREFERENCES, len(tables.access), p=shares).astype(np.int8)
