"""Tasks: plans and their judged seconds, clocks, parts and budgets."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.kernels import judge
from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.game.outcome import make_scoring
from mallocmuzero.env.game.plan import WAIT, random_plan
from mallocmuzero.env.physics.cost import CYCLES, available_models
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import CLOCKS, PROCESSOR, WALL, Budget
from mallocmuzero.solvers.common.fill import fill
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.solve import solve
from mallocmuzero.solvers.starts.plans import best_starts, good_starts

PROGRAM = "resnet50-b32-v4"
LOOPS = "lstm-train-b64-s32"


@settings(max_examples=60, deadline=None)
@given(programs(), st.integers(0, 2**31))
def test_a_plans_outcome_is_what_the_judge_says_of_its_mapping(program, seed: int) -> None:
    task = Task(program, None, "msa", Budget(None, 10), seed)
    for _ in range(3):
        seconds = task.play(random_plan(task.tables, task.generator))
        task.game.take_over()
        mapping = task.game.mapping()
        assert verify(program, program.target, mapping) == []
        assert seconds == pytest.approx(task.game.judge.judge(mapping), rel=1e-12)
        filled = fill(task.game.judge, mapping)
        assert verify(program, program.target, filled) == []
        assert task.game.judge.judge(filled) <= task.game.judge.judge(mapping)


@pytest.mark.parametrize("objective", ["msa", "cycles", "robust"])
@pytest.mark.parametrize("name", ["tiny", PROGRAM, "gpt2-b4-s512", LOOPS])
def test_outcomes_on_real_programs(name: str, objective: str) -> None:
    program = load(name)
    if objective != "msa" and CYCLES not in available_models(program):
        pytest.skip("the program has no cycle table")
    task = Task(program, None, objective, Budget(None, 100), 0)
    for _ in range(5):
        plan = random_plan(task.tables, task.generator)
        seconds = task.play(plan)
        task.game.take_over()
        assert seconds == pytest.approx(task.game.judge.judge(task.game.mapping()), rel=1e-12)


def test_the_game_itself_has_the_same_outcome() -> None:
    # Also with trivial buffers played, as `MallocGame` does.
    game = MallocGame(load(PROGRAM), objective="msa")
    scoring, generator = make_scoring(game.judge), np.random.default_rng(0)
    while not game.done:
        game.step(int(generator.choice(np.flatnonzero(game.legal))))
    assert judge(game.tables, scoring, game.state) == pytest.approx(game.latency_s, rel=1e-12)


def test_a_plan_may_prefer_a_wait_that_the_game_forbids() -> None:
    # x takes 8 s to fetch, gains 6 s, and nothing runs before: by the game's rules it stays in HBM.
    program = make_program(
        [("a", 0.0, ["i"], ["y"]), ("b", 0.0, ["x", "y"], ["z"])],
        {"i": {"size": 8, "input": True}, "x": {"size": 64, "input": True}, "y": 8, "z": {"size": 8, "output": True}},
    )
    task = Task(program, None, "msa", Budget(None, 10), 0)
    last = int(np.flatnonzero(program.access_buffer == program.buffer_names.index("x"))[0])
    fast = {}
    for preference in (COPY, WAIT):
        plan = np.full(program.num_accesses, DROP, np.int8)
        plan[last] = preference
        task.play(plan)
        task.game.take_over()
        mapping = task.game.mapping()
        assert verify(program, program.target, mapping) == []
        fast[preference] = bool(mapping.access_fast[last])
    assert fast == {COPY: False, WAIT: True}


def test_plans_keep_the_clock_they_were_made_by() -> None:
    program = load(PROGRAM)
    task = Task(program, None, None, Budget(None, 200), 0)
    assert task.msa_shares[0] == 0.5
    assert len(Task(program, None, "msa", Budget(None, 200), 0).msa_shares) == 1
    starts = best_starts(task, 1.0)
    assert len(starts) == len(task.msa_shares)
    best_s = task.best_s
    task.use(task.tables_with(0.5))
    mapping = task.mapping()
    assert mapping is not None
    assert task.game.judge.judge(mapping) <= best_s * (1 + 1e-9)


def test_a_part_of_a_task_has_offers_and_a_budget_of_its_own() -> None:
    task = Task(load("tiny"), None, "msa", Budget(None, 200), 0)
    plan = good_starts(task, 0.0)[0]
    best_s, played = task.best_s, task.evaluations
    part = task.part(0.25, lambda: False)
    assert part.mapping() is None
    assert not part.done
    while not part.done:
        part.play(random_plan(part.tables, part.generator))
    assert (part.evaluations, part.best_s < np.inf) == (50, True)
    assert (task.evaluations, task.best_s) == (played, best_s)
    assert task.play(plan) == best_s
    assert task.mapping() is not None
    assert task.part(0.5, lambda: True).done


def test_processor_time_is_not_wall_time() -> None:
    task = Task(load("tiny"), None, "msa", Budget(10.0, clock=PROCESSOR), 0)
    before = task.seconds
    time.sleep(0.3)
    assert task.seconds - before < 0.2
    assert 9.0 < task.seconds_left <= 10.0
    with pytest.raises(UserError, match="sundial"):
        Budget(1.0, clock="sundial")


def test_looks_at_the_clock_are_a_small_part_of_a_short_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setitem(CLOCKS, WALL, lambda: now[0])
    for seconds, games in ((0.2, 1), (1.0, 5), (4.0, 20), (60.0, 50)):
        now[0] = 0.0
        task = Task(load("tiny"), None, None, Budget(seconds), 0)
        now[0], task.evaluations = 2.0, 1000
        assert task.games_per_look() == games


@pytest.mark.parametrize("objective", ["msa", "robust"])  # `robust` searches with more than one clock
def test_only_inputs_that_may_be_are_prefetched_across_programs(objective: str) -> None:
    program = load("dlrm-train-b2048")

    def across(crossable: np.ndarray | None) -> list[int]:
        found = solve(program, "anneal", objective=objective, budget=Budget(None, 400), crossable=crossable)
        return found.mapping.copies[found.mapping.copies[:, 1] == CROSS_PROGRAM, 0].tolist()

    free = across(None)
    assert free
    may = np.ones(program.num_buffers, bool)
    may[free] = False
    assert not np.isin(across(may), free).any()
    assert across(np.zeros(program.num_buffers, bool)) == []
