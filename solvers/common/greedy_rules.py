"""The greedy reference player: simple rules over the legal moves, the best of a small grid of settings."""

import itertools
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.unowned import unowned
from ...env.game.columns import (
    A_BUFFER,
    A_INSTRUCTION,
    A_KIND,
    AF_AHEAD,
    B_ALIGNED,
    B_LAST,
    C_ACCESS,
    IF_CLOCK,
    IF_HBM_RUN,
    IF_WEIGHT,
    L_FAST,
    L_INSTRUCTIONS,
    S_RESIDENT,
)
from ...env.game.game import MallocGame, play_line
from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.options import Options, new_options
from ...env.game.rules import advance, reset, step
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
    options = new_options()
    lines: list[tuple[float, Rule, NDArray[np.int64]]] = []
    for rule in GRID:
        count = play_rule(game.tables, game.state, options, taken, rule)
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
        count = play_rule(game.tables, game.state, options, taken, rule)
        moves = taken[:count].copy()
        play_line(game, moves)
        if game.latency_s < best[0]:
            best = game.latency_s, rule, moves
    play_line(game, best[2])
    return best[1]


@njit(cache=True)
def play_rule(tables: Tables, state: State, options: Options, taken: np.ndarray, rule: Rule) -> int:
    """Plays a whole game by `rule`; `taken` receives the moves. Returns the number of decisions."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    going = advance(tables, state, options)
    count = 0
    while going:
        move = _move(tables, state, options, rule)
        taken[count] = move
        count += 1
        going = step(tables, state, options, move)
    return count


@njit(cache=True)
def _move(tables: Tables, state: State, options: Options, rule: Rule) -> int:
    """Returns the rule's move."""
    legal = options.legal
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    t = tables.access[access, A_INSTRUCTION]
    last = tables.access[tables.buffer[owner, B_LAST], A_INSTRUCTION]
    whole = tables.instruction_f[tables.limits[L_INSTRUCTIONS], IF_CLOCK]
    span = tables.instruction_f[last, IF_CLOCK] + tables.instruction_f[last, IF_HBM_RUN]
    span -= tables.instruction_f[t, IF_CLOCK]
    ahead = tables.access_f[access, AF_AHEAD]
    takes_too_much = options.victims * span > rule.victims * ahead
    waits_s = options.stall_s * tables.instruction_f[t, IF_WEIGHT]
    if tables.access[access, A_KIND] == OPERAND:
        if ahead < 0.0 and legal[DROP]:
            return DROP  # `cycles` has instructions that fast memory slows down
        if state.buffer[owner, S_RESIDENT] == 1:
            return NO_COPY
        if legal[COPY] and waits_s <= rule.stall * ahead and not takes_too_much:
            return COPY
        return NO_COPY if legal[NO_COPY] and ahead > rule.across * whole else DROP
    share = tables.buffer[owner, B_ALIGNED] / tables.limits[L_FAST]
    dense = ahead >= rule.least_density * share * span
    if legal[DROP] and (takes_too_much or not dense or (waits_s > 0.0 and rule.stall == 0.0)):
        return DROP
    if legal[COPY] and (not legal[NO_COPY] or span > rule.write_back_after * whole):
        return COPY
    return NO_COPY if legal[NO_COPY] else DROP
