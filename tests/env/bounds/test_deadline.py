"""A bound keeps to its limit of seconds on programs far too long for it, and still returns what holds."""

import dataclasses
import time

import numpy as np
import pytest
from programs import make_program

from mallocmuzero.env.bounds.bound import Bound, bound
from mallocmuzero.env.bounds.deadline import Deadline, TimeIsUp
from mallocmuzero.env.bounds.relaxation import SCOPES, build_relaxation
from mallocmuzero.env.bounds.solve import solve_integer, solve_relaxation
from mallocmuzero.env.physics.cost import MSA
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.verifier.verify import verify

LATE_S = 1.0


def chain(steps: int) -> Program:
    """Returns a long program: each step reads a weight and the value before, and needs more memory than there is."""
    buffers: dict[str, dict[str, object] | int] = {"v0": {"size": 40, "input": True}}
    instructions = []
    for t in range(steps):
        buffers[f"w{t}"] = {"size": 24 + 8 * (t % 5), "input": True}
        buffers[f"v{t + 1}"] = 40
        instructions.append((f"step.{t}", 0.3 * (t % 7), [f"w{t}", f"w{t // 2}", f"v{t}"], [f"v{t + 1}"]))
    program = make_program(instructions, buffers)
    return dataclasses.replace(program, production=all_hbm(program))


@pytest.mark.parametrize(("steps", "seconds"), [(60, 1.0), (250, 2.0), (400, 5.0), (1500, 3.0), (20_000, 4.0)])
def test_the_limit_holds_and_the_result_is_no_worse_than_production(steps: int, seconds: float) -> None:
    program = chain(steps)
    bound(chain(8), MSA, 20.0)  # loads compiled code
    # Of this process alone: how long it waits for others is not the bound's.
    began = time.process_time()
    found = bound(program, MSA, seconds)
    assert time.process_time() - began <= seconds + LATE_S
    assert verify(program, program.target, found.mapping) == []
    assert found.production_s is not None
    assert found.bound_s <= found.mapping_s <= found.production_s
    assert found.bound_s >= found.floor_s * (1 - 1e-6)
    assert found.cut_short or found.optimal or found.proved


def test_a_hopeless_relaxation_is_said_to_be_cut_short() -> None:
    found = bound(chain(20_000), MSA, 1.0)
    assert found.cut_short
    assert found.relaxation_s is None
    assert found.size == (0, 0, 0)


class Looks(Deadline):
    """A limit of looks at the clock in place of seconds, so that no other process on the machine decides."""

    def __init__(self, most: float) -> None:
        super().__init__(float("inf"))
        self.looks, self.most = 0, most

    def passed(self) -> bool:
        self.looks += 1
        return self.looks > self.most


def test_building_ends_at_the_deadline() -> None:
    judge = make_judge(chain(400), MSA)

    def build(most: float) -> int:
        deadline = Looks(most)
        try:
            build_relaxation(judge, SCOPES["legal"], 0.0, 400, deadline)
        except TimeIsUp:
            assert deadline.looks == most + 1  # at once, wherever it is
        else:
            assert most == float("inf")
        return deadline.looks

    needed = build(float("inf"))
    assert needed > 400  # more than one look for each of its instructions, so no part is long
    for most in np.linspace(0, needed - 1, 12, dtype=int):
        build(int(most))


def test_a_solver_that_is_left_gives_a_bound_or_none() -> None:
    linear, _, _ = build_relaxation(make_judge(chain(400), MSA), SCOPES["legal"], 0.0, 400)
    for solver in (solve_relaxation, solve_integer):
        deadline = Deadline(0.3)
        cut = solver(linear, 60.0, stop=deadline.passed, leave=True)
        assert deadline.spent < 0.3 + LATE_S
        assert not cut.optimal or np.isfinite(cut.bound)


def test_a_solver_runs_after_one_that_was_left() -> None:
    linear, _, _ = build_relaxation(make_judge(chain(400), MSA), SCOPES["legal"], 0.0, 400)
    deadline = Deadline(0.05)
    solve_relaxation(linear, 60.0, deadline.passed, leave=True)
    small, _, _ = build_relaxation(make_judge(chain(8), MSA), SCOPES["legal"], 0.0, 400)
    assert solve_relaxation(small, 60.0).optimal


def test_verifying_and_all_that_follows_end_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    program = chain(40)
    program = dataclasses.replace(program, production=bound(program, MSA, 20.0).mapping)

    def look(most: float) -> tuple[Bound, Looks]:
        deadline = Looks(most)
        monkeypatch.setattr("mallocmuzero.env.bounds.bound.Deadline", lambda seconds, stop: deadline)
        return bound(program, MSA, 1.0, integer=False), deadline

    whole, deadline = look(float("inf"))
    assert deadline.looks > 40  # each buffer of the mapping, and each instruction of the relaxation
    assert whole.production_s is not None
    assert whole.mapping_s <= whole.production_s
    for most in range(0, 40, 4):
        found, deadline = look(most)
        assert deadline.looks <= most + 3  # ended where it was, noted, and noted again
        assert found.cut_short
        assert found.bound_s > 0.0
        assert verify(program, program.target, found.mapping) == []
    assert look(0)[0].mapping_s == make_judge(program, MSA).judge(all_hbm(program))
