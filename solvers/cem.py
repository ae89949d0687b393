"""The solver `cem`: the cross-entropy method on the weights of a linear policy (Rubinstein, 1999)."""

import numpy as np
from numba import types
from numpy.typing import NDArray

from ..env.compiled.kernel import kernel, routine, vector
from ..env.game.kernels import CompiledGame
from ..env.game.moves import COPY, DROP, NO_COPY, NO_MOVE
from ..env.game.options import Options
from ..env.game.plan import preference_of
from ..env.game.state import State
from ..env.game.tables import Tables
from ..env.program.program import OPERAND
from .common.task import Task
from .starts.plans import good_starts

NUM_FEATURES = 11
# Rows of weights: for an operand, of being fast; for a result, of `NO_COPY` and of `COPY`. HBM scores 0.
_OPERAND, _NO_COPY, _COPY = range(3)
_POPULATION = 48
_ELITE = 8
# Share of the old distribution in the new one, and the added deviation, which shrinks to 0 over the budget.
_KEEP = 0.3
_NOISE = 0.15
# Rounds without improvement after which a new distribution begins.
_PATIENCE = 12


def cem(task: Task) -> None:
    """Draws weights, plays a game with each and refits to the best, until the budget is spent.

    Each new distribution plays by the next clock.
    """
    good_starts(task, 0.0)
    shape = (3, NUM_FEATURES)
    plan, features = np.zeros(len(task.tables.access), np.int8), np.zeros(NUM_FEATURES)
    clocks = task.generator.permutation(np.array(task.msa_shares)).tolist()
    while not task.done and len(task.free):
        task.use(task.tables_with(clocks[0]))
        clocks = clocks[1:] + clocks[:1]
        mean, deviation = _first(shape)
        best, since, rounds = np.inf, 0, 0
        while not task.done and since < _PATIENCE:
            rounds += 1
            task.doing = f"round {rounds}"
            drawn = mean + deviation * task.generator.standard_normal((_POPULATION, *shape))
            scores = np.full(_POPULATION, np.inf)
            for number, weights in enumerate(drawn):
                if task.done:
                    break
                play_policy(task.compiled, weights, features, plan)
                scores[number] = task.finished(plan)
            elite = np.argsort(scores, kind="stable")[:_ELITE]
            if not np.isfinite(scores[elite]).all():
                break
            since = 0 if scores[elite[0]] < best else since + 1
            best = min(best, float(scores[elite[0]]))
            mean = _KEEP * mean + (1 - _KEEP) * drawn[elite].mean(0)
            deviation = _KEEP * deviation + (1 - _KEEP) * drawn[elite].std(0) + _NOISE * (1.0 - task.spent)


def _first(shape: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the first mean and deviation: in favour of fast memory, neutral on write-backs."""
    mean = np.zeros(shape)
    mean[_OPERAND, 0] = mean[_NO_COPY, 0] = 1.0
    return mean, np.ones(shape)


@kernel(CompiledGame, types.Array(types.float64, 2, "C"), vector(np.float64), vector(np.int8))
def play_policy(game: CompiledGame, weights: np.ndarray, features: np.ndarray, plan: np.ndarray) -> None:
    """Plays a game by a linear policy `weights[3, NUM_FEATURES]`; `plan[A]` receives the preferences that repeat it.
    `features[NUM_FEATURES]` is overwritten."""
    tables, state, options = game.tables, game.state, game.options
    for access in range(len(plan)):
        plan[access] = NO_COPY
    game.reset(tables, state)
    move = NO_MOVE
    while game.advance(tables, state, options, move) > 0:
        access = state.now.access
        observe(tables, state, options, features)
        legal = options.legal
        move = DROP
        best = 0.0 if legal[DROP] else -np.inf
        if tables.access[access].kind == OPERAND:
            value = _value(weights, _OPERAND, features)
            if (legal[NO_COPY] or legal[COPY]) and value > best:
                move = COPY if legal[COPY] else NO_COPY
        else:
            for choice in (NO_COPY, COPY):
                value = _value(weights, _NO_COPY if choice == NO_COPY else _COPY, features)
                if legal[choice] and value > best:
                    move, best = choice, value
        plan[access] = preference_of(tables, state, move)


@routine
def _value(weights: np.ndarray, row: int, features: np.ndarray) -> float:
    """Returns the product of a row of weights with the features."""
    value = 0.0
    for k in range(NUM_FEATURES):
        value += weights[row, k] * features[k]
    return value


@routine
def observe(tables: Tables, state: State, options: Options, features: np.ndarray) -> None:
    """Fills `features[NUM_FEATURES]` for the access to decide next; they have no units and are of the order of 1."""
    access = state.now.access
    owner, t = tables.access[access].buffer, tables.access[access].instruction
    now_s = tables.instruction[t].clock_s
    whole = max(tables.instruction[tables.limits.instructions].clock_s, 1e-30)
    last = tables.access[tables.buffer[owner].last].instruction
    span = tables.instruction[last].clock_s + tables.instruction[last].all_hbm_s - now_s
    following = tables.access[access].next
    gap = 0.0
    if following >= 0:
        gap = tables.instruction[tables.access[following].instruction].clock_s - now_s
    ahead = max(tables.access[access].ahead, 1e-30)
    share = tables.buffer[owner].aligned / tables.limits.fast_bytes
    need = tables.buffer[owner].size / tables.rates.hbm
    features[0] = 1.0
    features[1] = 0.25 * np.log10(max(share, 1e-6)) + 0.5
    features[2] = 0.5 * np.log10(max(ahead / max(share * span, 1e-30), 1e-6))
    features[3] = np.sqrt(max(span, 0.0) / whole)
    features[4] = np.sqrt(max(gap, 0.0) / whole)
    features[5] = tables.access[access].benefit / ahead
    features[6] = min(options.victims * span / ahead, 3.0)
    features[7] = min(options.stall_s * tables.instruction[t].weight / ahead, 3.0)
    features[8] = min(options.supply_s / max(need, 1e-30), 2.0)
    features[9] = min(tables.instruction[t].live, 3.0)
    features[10] = 1.0 if tables.buffer[owner].is_output else 0.0
