"""A game told by its residencies and write-backs is nearly the same game; without write-backs it is another one."""

import numpy as np

from benchmarks.oracle.tell import ACCESSES, PLAIN, WAYS, WRITTEN_BACK, tell, ways_to_tell
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.game.plan import WAIT
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.starts.plans import portfolio_starts


def test_write_backs_are_needed_to_tell_a_game() -> None:
    task = Task(load("graph-network-train"), None, "msa", Budget(None, 10_000), 0)
    start = portfolio_starts(task, 12 / 10_000, 1)[0]
    plain = task.tables_with(task.msa_shares[0])
    seconds = ways_to_tell(task, start.plan, start.plan_tables, plain)
    assert set(seconds) == set(WAYS)
    assert seconds[WRITTEN_BACK] < 1.02 * start.seconds
    assert seconds[PLAIN] == seconds[WRITTEN_BACK]  # it had no hints
    assert seconds[ACCESSES] >= seconds[WRITTEN_BACK]


def test_a_patient_plan_waits() -> None:
    tables = Task(load("tiny"), None, "msa", Budget(None, 10), 0).tables
    count = len(tables.access)
    everything, nothing = np.ones(count, bool), np.zeros(count, bool)
    operand = tables.access["kind"] == 0
    assert (tell(tables, nothing, everything, True) == DROP).all()
    patient, eager = (tell(tables, everything, nothing, wait) for wait in (True, False))
    assert (patient == WAIT).all()
    np.testing.assert_array_equal(eager, np.where(operand, COPY, NO_COPY))
    assert (tell(tables, everything, everything, True)[~operand] == COPY).all()
