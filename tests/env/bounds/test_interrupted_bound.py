"""A bound that is interrupted keeps what holds by then, whatever the interruption falls into."""

import time

import pytest
from bound_cases import CHAIN

from mallocmuzero.env.bounds import solve as solver
from mallocmuzero.env.bounds.bound import Bound, bound
from mallocmuzero.env.bounds.relaxation import SCOPES, build_relaxation
from mallocmuzero.env.bounds.solve import solve_relaxation
from mallocmuzero.env.physics.cost import MSA
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load

NAME = "resnet50-b32-v4"
LONG_S = 600.0


def check_valid(found: Bound) -> None:
    program = load(NAME)
    assert found.stopped
    assert found.cut_short
    assert verify(program, program.target, found.mapping) == []
    assert 0.0 < found.bound_s <= found.mapping_s
    assert found.bound_s >= bound(program, MSA, 1e-9).bound_s  # no weaker than without any time


@pytest.mark.parametrize("looks", [0, 1, 30, 300])
def test_a_request_to_stop_ends_it_with_what_holds(looks: int) -> None:
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return asked > looks

    began = time.process_time()
    found = bound(load(NAME), MSA, LONG_S, stop=stop)
    assert time.process_time() - began < LONG_S / 10
    check_valid(found)


@pytest.mark.parametrize("stage", ["relaxation", "mappings", "integer"])
def test_ctrl_c_outside_the_solver_keeps_what_holds(stage: str) -> None:
    def report(name: str, found: Bound) -> None:
        if name == stage:
            raise KeyboardInterrupt

    found = bound(load(NAME), MSA, LONG_S, report=report)
    check_valid(found)
    assert (found.relaxation_s is None) == (stage == "relaxation")


def test_ctrl_c_while_the_solver_runs_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(self: object, timeout: float = -1.0) -> tuple[bool, None]:
        assert timeout >= 0, "waits for a solver that does not end"
        if not waited:
            waited.append(timeout)
            raise KeyboardInterrupt
        time.sleep(timeout)
        return False, None

    waited: list[float] = []
    monkeypatch.setattr(solver.highspy.Highs, "wait", wait)
    linear, _, _ = build_relaxation(make_judge(CHAIN, MSA), SCOPES["legal"], 0.0, 400)
    began = time.perf_counter()
    cut = solve_relaxation(linear, LONG_S, leave=True)
    assert time.perf_counter() - began < LONG_S / 10
    assert cut.stopped
    assert not cut.optimal


def test_a_program_that_is_done_is_not_cut_short() -> None:
    found = bound(CHAIN, MSA, 20.0)
    assert found.proved or found.optimal
    assert not found.stopped
    assert not found.cut_short
