"""The greedy reference player: simple rules over the legal moves, the best of a small grid of settings."""

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import kernel, routine, vector
from ...env.compiled.struct import new_record
from ...env.game.game import MallocGame, play_line
from ...env.game.kernels import CompiledGame
from ...env.game.moves import COPY, DROP, NO_COPY, NO_MOVE
from ...env.game.options import Options, new_options
from ...env.game.state import State
from ...env.game.tables import Tables
from ...env.program.program import OPERAND


class Rule(NamedTuple):
    """Settings of the greedy player.

    Attributes:
      least_density: a result goes to HBM if its benefits ahead are less than this, per second and per share of fast
        memory that it would hold until its last use.
      write_back_after: a result that lives longer than this share of the program's time is also written back, so that
        it can be evicted before its last use.
      victims: a buffer evicts others if they lose less than this multiple of its benefits ahead.
      stall: a prefetch may make its instruction wait for up to this multiple of the benefits ahead; below 0 nothing is
        prefetched. Unless it is 0, a result may wait for free memory.
      across: a program input that no prefetch can bring in time is prefetched across programs if its benefits sum to
        more than this share of the program's time.
    """

    least_density: float
    write_back_after: float
    victims: float
    stall: float
    across: float = np.inf


_RULE = np.dtype([(name, np.float64) for name in Rule._fields])

_DENSITIES = (0.0, 0.05, 0.2, 0.5)
_LIVES = (0.0, 0.003, 0.01, 0.03, 0.1, 2.0)
GRID = (
    *(Rule(*setting) for setting in itertools.product(_DENSITIES, _LIVES, (0.0, 0.5, 1.0), (0.0, 0.5))),
    *(Rule(density, life, 0.0, -1.0) for density, life in itertools.product(_DENSITIES, _LIVES)),
)
# Lines of play that the simulator judges. The best rule is then tried with a cross-program prefetch.
_SIMULATED = 16
_ACROSS = (0.001, 0.005, 0.02)


def play_greedy(game: MallocGame) -> Rule:
    """Plays `game` to its end by the best rule of the grid, and returns the rule.

    The game's own account ranks the lines of play; the simulator judges the best of them.
    """
    taken = np.zeros(len(game.tables.access), np.int64)
    compiled = game.compiled.replace(options=new_options())
    lines: list[tuple[float, Rule, NDArray[np.int64]]] = []
    for rule in GRID:
        count = play_rule(compiled, rule, taken)
        lines.append((game.saved_s, rule, taken[:count].copy()))
    lines.sort(key=lambda line: -line[0])
    best: tuple[float, Rule, NDArray[np.int64]] | None = None
    for _, rule, moves in lines[:_SIMULATED]:
        play_line(game, moves)
        if best is None or game.latency_s < best[0]:
            best = game.latency_s, rule, moves
    assert best is not None
    for across in _ACROSS:
        rule = best[1]._replace(across=across)
        count = play_rule(compiled, rule, taken)
        moves = taken[:count].copy()
        play_line(game, moves)
        if game.latency_s < best[0]:
            best = game.latency_s, rule, moves
    play_line(game, best[2])
    return best[1]


def play_rule(game: CompiledGame, rule: Rule, taken: NDArray[np.int64]) -> int:
    """Plays a whole game by `rule`; `taken` receives the moves. Returns the number of decisions."""
    return int(_play_rule(game, new_record(_RULE, **rule._asdict()), taken))


@kernel(CompiledGame, _RULE, vector(np.int64), returns=int)
def _play_rule(game: CompiledGame, rule: Rule, taken: np.ndarray) -> int:
    tables, state, options = game.tables, game.state, game.options
    game.reset(tables, state)
    count, move = 0, NO_MOVE
    while game.advance(tables, state, options, move) > 0:
        move = _move(tables, state, options, rule)
        taken[count] = move
        count += 1
    return count


@routine
def _move(tables: Tables, state: State, options: Options, rule: Rule) -> int:
    """Returns the rule's move."""
    legal = options.legal
    access = state.now.access
    owner = tables.access[access].buffer
    t = tables.access[access].instruction
    last = tables.access[tables.buffer[owner].last].instruction
    whole = tables.instruction[tables.limits.instructions].clock_s
    span = tables.instruction[last].clock_s + tables.instruction[last].all_hbm_s
    span -= tables.instruction[t].clock_s
    ahead = tables.access[access].ahead
    takes_too_much = options.victims * span > rule.victims * ahead
    waits_s = options.stall_s * tables.instruction[t].weight
    if tables.access[access].kind == OPERAND:
        if ahead < 0.0 and legal[DROP]:
            return DROP  # `cycles` has instructions that fast memory slows down
        if state.buffer[owner].resident == 1:
            return NO_COPY
        if legal[COPY] and waits_s <= rule.stall * ahead and not takes_too_much:
            return COPY
        return NO_COPY if legal[NO_COPY] and ahead > rule.across * whole else DROP
    share = tables.buffer[owner].aligned / tables.limits.fast_bytes
    dense = ahead >= rule.least_density * share * span
    if legal[DROP] and (takes_too_much or not dense or (waits_s > 0.0 and rule.stall == 0.0)):
        return DROP
    if legal[COPY] and (not legal[NO_COPY] or span > rule.write_back_after * whole):
        return COPY
    return NO_COPY if legal[NO_COPY] else DROP
