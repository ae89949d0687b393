"""Cross-entropy method: a linear policy over features of the decision at hand, its weights drawn and refitted."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..env.compiled.unowned import unowned
from ..env.game.rules import COPY, DROP, NO_COPY, advance, play, reset
from ..env.game.state import (
    A_BUFFER,
    A_INSTRUCTION,
    A_KIND,
    A_NEXT,
    AF_AHEAD,
    AF_BENEFIT,
    B_ALIGNED,
    B_LAST,
    B_OUTPUT,
    B_SIZE,
    C_ACCESS,
    F_PLAN_STALL,
    F_PLAN_SUPPLY,
    F_PLAN_VICTIMS,
    IF_CLOCK,
    IF_HBM_RUN,
    IF_LIVE,
    IF_WEIGHT,
    L_FAST,
    L_INSTRUCTIONS,
    R_HBM,
    State,
    Tables,
)
from ..env.program.program import OPERAND
from .common.plan import preference_of
from .common.starts import good_starts
from .common.task import Task

NUM_FEATURES = 11
# Weights: for an operand those of being fast, for a result those of NoCopy and of Copy; HBM counts 0.
_OPERAND, _NO_COPY, _COPY = range(3)
_POPULATION = 48
_ELITE = 8
# Share of the old distribution that is kept, and the least deviation, which shrinks to nothing over the budget.
_KEEP = 0.3
_NOISE = 0.15
# A distribution that has not led to anything better for so many rounds is given up for a new one.
_PATIENCE = 12


def cem(task: Task) -> None:
    """Draws weights, plays a game each, refits to the best, until the budget is spent; by the next clock each time that
    it begins anew."""
    good_starts(task, 0.0)
    shape = (3, NUM_FEATURES)
    plan = np.zeros(len(task.tables.access), np.int8)
    clocks = task.generator.permutation(np.array(task.clocks)).tolist()
    while not task.done and len(task.free):
        task.take(task.clock(clocks[0]))
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
                play_policy(task.tables, task.state, task.legal, weights, plan)
                scores[number] = task.finished(plan)
            elite = np.argsort(scores, kind="stable")[:_ELITE]
            if not np.isfinite(scores[elite]).all():
                break
            since = 0 if scores[elite[0]] < best else since + 1
            best = min(best, float(scores[elite[0]]))
            mean = _KEEP * mean + (1 - _KEEP) * drawn[elite].mean(0)
            deviation = _KEEP * deviation + (1 - _KEEP) * drawn[elite].std(0) + _NOISE * (1.0 - task.spent)


def _first(shape: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns mean and deviation to begin with: fast rather than not, written back rather rarely."""
    mean = np.zeros(shape)
    mean[_OPERAND, 0] = mean[_NO_COPY, 0] = 1.0
    return mean, np.ones(shape)


@njit(cache=True, nogil=True)
def play_policy(tables: Tables, state: State, legal: np.ndarray, weights: np.ndarray, plan: np.ndarray) -> None:
    """Plays a game by a linear policy; `plan[A]` receives the preferences that make the same game."""
    tables, state = unowned(tables), unowned(state)
    features = np.zeros(NUM_FEATURES)
    plan[:] = NO_COPY
    reset(tables, state)
    while advance(tables, state, legal):
        access = state.counters[C_ACCESS]
        observe(tables, state, features)
        move = DROP
        best = 0.0 if legal[DROP] else -np.inf
        if tables.access[access, A_KIND] == OPERAND:
            value = _value(weights, _OPERAND, features)
            if (legal[NO_COPY] or legal[COPY]) and value > best:
                move = COPY if legal[COPY] else NO_COPY
        else:
            for choice in (NO_COPY, COPY):
                value = _value(weights, _NO_COPY if choice == NO_COPY else _COPY, features)
                if legal[choice] and value > best:
                    move, best = choice, value
        plan[access] = preference_of(tables, state, move)
        play(tables, state, move)


@njit(cache=True, nogil=True)
def _value(weights: np.ndarray, row: int, features: np.ndarray) -> float:
    value = 0.0
    for k in range(NUM_FEATURES):
        value += weights[row, k] * features[k]
    return value


@njit(cache=True, nogil=True)
def observe(tables: Tables, state: State, features: np.ndarray) -> None:
    """Fills `features[NUM_FEATURES]` for the access to decide next, without units and about as large as 1."""
    access = state.counters[C_ACCESS]
    owner, t = tables.access[access, A_BUFFER], tables.access[access, A_INSTRUCTION]
    clock = tables.instruction_f[:, IF_CLOCK]
    whole = max(clock[tables.limits[L_INSTRUCTIONS]], 1e-30)
    last = tables.access[tables.buffer[owner, B_LAST], A_INSTRUCTION]
    span = clock[last] + tables.instruction_f[last, IF_HBM_RUN] - clock[t]
    following = tables.access[access, A_NEXT]
    gap = clock[tables.access[following, A_INSTRUCTION]] - clock[t] if following >= 0 else 0.0
    ahead = max(tables.access_f[access, AF_AHEAD], 1e-30)
    share = tables.buffer[owner, B_ALIGNED] / tables.limits[L_FAST]
    need = tables.buffer[owner, B_SIZE] / tables.rates[R_HBM]
    features[0] = 1.0
    features[1] = 0.25 * np.log10(max(share, 1e-6)) + 0.5
    features[2] = 0.5 * np.log10(max(ahead / max(share * span, 1e-30), 1e-6))
    features[3] = np.sqrt(max(span, 0.0) / whole)
    features[4] = np.sqrt(max(gap, 0.0) / whole)
    features[5] = tables.access_f[access, AF_BENEFIT] / ahead
    features[6] = min(state.sums[F_PLAN_VICTIMS] * span / ahead, 3.0)
    features[7] = min(state.sums[F_PLAN_STALL] * tables.instruction_f[t, IF_WEIGHT] / ahead, 3.0)
    features[8] = min(state.sums[F_PLAN_SUPPLY] / max(need, 1e-30), 2.0)
    features[9] = min(tables.instruction_f[t, IF_LIVE], 3.0)
    features[10] = 1.0 if tables.buffer[owner, B_OUTPUT] else 0.0
