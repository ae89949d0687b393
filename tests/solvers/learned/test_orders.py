"""The search over XLA's orders stops where it no longer gains enough."""

import numpy as np
import pytest
from guided_cases import make_task

from mallocmuzero.solvers.learned.config import GuidedConfig
from mallocmuzero.solvers.learned.orders import OrderStop


def stopped_at(to_beat_s: float, bests: list[tuple[float, float]]) -> float:
    """Returns the share of its time after which a search ends that reaches `bests`, shares of its time and seconds.

    Production takes 200 seconds.
    """
    task = make_task(1000, "tiny")
    production_s = task.game.judge.production_s
    assert production_s is not None
    unit = production_s / 200.0
    task.best_s = to_beat_s * unit
    stop = OrderStop(task, GuidedConfig(order_min_share=0.1, order_max_share=0.5))
    part = make_task(1000, "tiny")
    for evaluations in range(1001):
        part.evaluations = evaluations
        part.best_s = unit * next((s for at, s in reversed(bests) if at <= evaluations / 1000), np.inf)
        if stop.reached(part):
            return evaluations / 1000
    return 1.0


def test_orders_are_searched_while_they_could_still_be_better() -> None:
    steady = [(0.01 + 0.01 * k, 100.0 - 0.1 * k) for k in range(100)]
    assert stopped_at(99.0, steady) == 1.0  # gains all the time
    assert stopped_at(99.0, [(0.01, 98.0)]) == 0.2  # leads, but gains nothing more
    assert stopped_at(50.0, steady) == 0.2  # gains, but is far behind
    late = [(0.01, 100.0), (0.15, 97.0)]
    assert stopped_at(98.0, late) == pytest.approx(0.3, abs=0.01)  # at twice the time of its last gain
    assert stopped_at(200.0, [(0.01, 200.0)]) == 1.0  # nothing is better than production yet
    assert stopped_at(200.0, [(0.01, 201.0), (0.3, 199.0)]) == pytest.approx(0.6, abs=0.01)
    assert stopped_at(199.0, [(0.01, 200.0)]) == 0.2
