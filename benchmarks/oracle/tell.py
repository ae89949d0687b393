"""Ways of expressing a played game as moves, from its residencies and write-backs alone."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.plan import CROSS_PROGRAM_FETCH, WAIT, Plan
from mallocmuzero.env.game.tables import Tables
from mallocmuzero.env.program.program import OPERAND
from mallocmuzero.env.residency.stays import CUTS, make_stays
from mallocmuzero.solvers.common.task import PlanTables, Task

ACCESSES, WRITTEN_BACK, PLAIN = "accesses", "accesses, write-backs", "the same without hints"
WAYS = (ACCESSES, WRITTEN_BACK, PLAIN, *(f"stays cut at {cut:g}" for cut in CUTS))


def ways_to_tell(task: Task, made: Plan, plan_tables: PlanTables, plain: PlanTables) -> dict[str, float]:
    """Returns the judged seconds of a game expressed in each way of `WAYS`.

    Args:
      task: the task whose game it is.
      made: `[A]` the plan that makes the game on `plan_tables`.
      plan_tables: the tables with their hints at a followed mapping, if there are any.
      plain: tables by the same clock without hints.
    """
    task.use(plan_tables)
    task.play(made)
    fast = np.asarray(task.state.access_fast[: len(made)]) > 0
    result = task.tables.access["kind"] != OPERAND
    out = result & (task.moves_made == COPY)
    across = int(task.state.now.cross)

    def play(tables: PlanTables, wanted: NDArray[np.bool_], written_back: NDArray[np.bool_], patient: bool) -> float:
        task.use(tables)
        return task.play(tell(tables.tables, wanted, written_back, patient, across))

    told: dict[str, Callable[[], float]] = {
        ACCESSES: lambda: play(plan_tables, fast, _needed(task.tables, fast), False),
        WRITTEN_BACK: lambda: play(plan_tables, fast, out, True),
        PLAIN: lambda: play(plain, fast, out, True),
    }
    seconds = {way: run() for way, run in told.items()}
    for way, cut in zip(WAYS[len(told) :], CUTS, strict=True):
        seconds[way] = play(plan_tables, *_by_stays(plain.tables, cut, fast, out), True)
    return seconds


def tell(
    tables: Tables, fast: NDArray[np.bool_], written_back: NDArray[np.bool_], patient: bool, across: int = -1
) -> Plan:
    """Returns the plan that asks for fast memory at `fast[A]`, and for a write-back of results at `written_back[A]`.

    A `patient` plan asks at the price of any wait. The buffer `across`, if it is not negative, comes by a cross-program
    prefetch.
    """
    operand = tables.access["kind"] == OPERAND
    asked = np.where(operand, WAIT if patient else COPY, np.where(written_back, COPY, WAIT if patient else NO_COPY))
    plan = np.where(fast, asked, DROP).astype(np.int8)
    plan[fast & operand & (tables.access["buffer"] == across)] = CROSS_PROGRAM_FETCH
    return plan


def _needed(tables: Tables, fast: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns `[A]` the results whose value is read from HBM later."""
    needed = np.zeros(len(fast), bool)
    following, operand = tables.access["next"], tables.access["kind"] == OPERAND
    for access in range(len(fast) - 1, -1, -1):
        after = following[access]
        needed[access] = after >= 0 and operand[after] and (not fast[after] or needed[after])
    return needed & ~operand


def _by_stays(
    tables: Tables, cut: float, fast: NDArray[np.bool_], out: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns `fast` and `out` with one decision per stay: the majority of its benefit, any of its write-backs."""
    stays = make_stays(tables, cut)
    member = np.flatnonzero(stays.of_access >= 0)
    stay, count = stays.of_access[member], len(stays.size)
    stake = np.abs(tables.access["benefit"][member]) + 1e-15
    share = np.bincount(stay, stake * fast[member], minlength=count) / np.bincount(stay, stake, minlength=count)
    written = np.bincount(stay, out[member], minlength=count) > 0
    wanted, written_back = np.zeros(len(fast), bool), np.zeros(len(fast), bool)
    wanted[member], written_back[member] = (share > 0.5)[stay], written[stay]
    return wanted, written_back
