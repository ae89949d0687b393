"""Every solver: verified mappings, the same ones from the same seed, within limits, whenever it ends."""

import gc
import json
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.game.outcome import make_scoring, outcome
from mallocmuzero.env.physics.cost import CYCLES, available_models
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers import solve as solve_module
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.cem import play_policy
from mallocmuzero.solvers.common import task as task_module
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget, Status
from mallocmuzero.solvers.common.fill import fill, gather
from mallocmuzero.solvers.common.follow import hints_of_mapping, plan_of_mapping
from mallocmuzero.solvers.common.plan import WAIT, play_plan, random_plan
from mallocmuzero.solvers.common.starts import best_starts, good_starts, random_rule_plan
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import PLAIN, Search, Walk
from mallocmuzero.solvers.restarts import random_play
from mallocmuzero.solvers.solve import SOLVERS, solve
from numba.core.dispatcher import Dispatcher
from programs import make_mapping, make_program, programs

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
    assert outcome(game.tables, scoring, game.state) == pytest.approx(game.latency_s, rel=1e-12)


@pytest.mark.parametrize(("search", "msa_share"), [(PLAIN, 0.5), (SEARCH, 0.5), (SEARCH, 0.15)])
def test_a_walk_from_kept_states_is_a_walk_from_the_beginning(search: Search, msa_share: float) -> None:
    task = Task(load(PROGRAM), None, "robust", Budget(None, 10_000), 1)
    task.use(task.tables_with(msa_share))
    walk = Walk(task, random_plan(task.tables, task.generator), search)
    for temperature in (1e-4, 1e-5, 0.0):
        walk.step(150, temperature)
        current, best = walk.current_s, task.best_s
        assert task.play(walk.plan) == pytest.approx(current, rel=1e-12)
        assert task.best_plan is not None
        assert task.play(task.best_plan) == pytest.approx(best, rel=1e-12)
    before = walk.plan.copy()
    assert (walk.differences() > 0).all()
    np.testing.assert_array_equal(walk.plan, before)


def test_a_walk_by_hinted_times_is_a_walk_from_the_beginning() -> None:
    # A preference to wait may change when a prefetch runs, and with it what fits later, but not the move.
    program = load("alexnet-train-b128")
    task = Task(program, None, "robust", Budget(None, 10_000), 0)
    task.use(task.tables_following(task.msa_shares[0], hints_of_mapping(program, program.production)))
    walk = Walk(task, plan_of_mapping(program, program.production), SEARCH)
    for _ in range(400):
        walk.step(1, 1e-9)
        assert task.play(walk.plan) == pytest.approx(walk.current_s, rel=1e-12)


def test_a_restored_walk_goes_on_as_before() -> None:
    task = Task(load(PROGRAM), None, "msa", Budget(None, 10_000), 1)
    walk = Walk(task, random_plan(task.tables, task.generator), SEARCH)
    walk.step(100, 1e-5)
    state, chance = walk.state(), task.generator.bit_generator.state
    walk.step(100, 1e-5)
    other = Walk(task, random_plan(task.tables, task.generator), SEARCH)
    other.restore(json.loads(json.dumps(state)))
    task.generator.bit_generator.state = chance
    other.step(100, 1e-5)
    assert (other.current_s, other.best_s) == (walk.current_s, walk.best_s)
    np.testing.assert_array_equal(other.plan, walk.plan)


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


def test_a_climb_never_gets_worse_and_annealing_beats_its_start() -> None:
    task = Task(load(PROGRAM), None, "msa", Budget(None, 100_000), 0)
    start = good_starts(task, 0.0)[0]
    walk = Walk(task, start)
    reached = [walk.current_s]
    for _ in range(10):
        walk.step(100, 0.0)
        reached.append(walk.current_s)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < reached[0]
    production_s = task.game.judge.production_s
    assert production_s is not None
    assert reached[-1] < 0.95 * production_s  # greedy alone reaches 0.94


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_repeat_and_keep_limits(solver: str) -> None:
    program = load(PROGRAM)
    first, second, other = (
        solve(program, solver, objective="msa", budget=Budget(None, 150), seed=seed) for seed in (3, 3, 4)
    )
    assert first.mapping.origin["solver"] == solver
    assert first.judged_s == second.judged_s
    for a, b in (
        (first.mapping.access_fast, second.mapping.access_fast),
        (first.mapping.residencies, second.mapping.residencies),
        (first.mapping.copies, second.mapping.copies),
    ):
        np.testing.assert_array_equal(a, b)
    assert 1 <= first.evaluations <= 150 + 48
    assert other.judged_s <= make_judge(program, "msa").judge(all_hbm(program))
    judge = make_judge(program, "msa")
    assert judge.judge(first.mapping) == first.judged_s
    assert verify(program, program.target, first.mapping) == []


@settings(max_examples=15, deadline=None)
@given(programs(), st.sampled_from(sorted(SOLVERS)))
def test_solvers_take_any_program(program, solver: str) -> None:
    solution = solve(program, solver, budget=Budget(None, 30))
    assert verify(program, program.target, solution.mapping) == []


def test_whoever_ends_it_gets_the_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    program, seen = load(PROGRAM), []

    def progress(status: Status) -> None:
        seen.append(status)
        if status.evaluations >= 40:
            raise KeyboardInterrupt

    solution = solve(program, "anneal", objective="msa", budget=Budget(None, 10**9), progress=progress)
    assert solution.stopped
    assert solution.judged_s <= seen[-1].best_s
    assert [status.best_s for status in seen] == sorted((s.best_s for s in seen), reverse=True)

    asked = iter([False, False, True])
    stopped = solve(program, "random", budget=Budget(None, 10**9), stop=lambda: next(asked, True))
    assert stopped.stopped
    assert stopped.evaluations <= 3

    def at_once(task: Task) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(solve_module, "warm_up", lambda solver: None)
    monkeypatch.setitem(SOLVERS, "random", at_once)
    nothing = solve(program, "random", budget=Budget(None, 1))
    assert nothing.judged_s == make_judge(program).judge(all_hbm(program))


def test_no_time_still_gives_a_mapping() -> None:
    for solver in SOLVERS:
        solution = solve(load("tiny"), solver, budget=Budget(0.0))
        assert solution.judged_s < make_judge(load("tiny")).judge(all_hbm(load("tiny")))


def test_repacking_gathers_room_and_fills_it() -> None:
    # Two sole copies break up the room, of which each half is too small for the third buffer.
    program = make_program(
        [("a", 0.0, ["i"], ["x"]), ("b", 0.0, ["x"], ["y"]), ("c", 0.0, ["y", "x"], ["o"])],
        {"i": {"size": 8, "input": True}, "x": 48, "y": 64, "o": {"size": 8, "output": True}},
    )
    judge = make_judge(program, "msa")
    broken = make_mapping(program, [("a", "x"), ("b", "x"), ("c", "x")], [("x", 0, 2, 32)])
    assert verify(program, program.target, broken) == []
    assert fill(judge, broken) is broken
    gathered = gather(judge, broken)
    assert verify(program, program.target, gathered) == []
    assert judge.judge(gathered) < judge.judge(broken)
    assert gather(judge, gathered) is gathered


@pytest.mark.parametrize("name", [PROGRAM, LOOPS])
def test_a_policys_plan_makes_the_policys_game(name: str) -> None:
    task = Task(load(name), None, "msa", Budget(None, 100), 0)
    plan = np.zeros(len(task.tables.access), np.int8)
    for _ in range(5):
        weights = task.generator.standard_normal((3, 11))
        play_policy(task.tables, task.state, task.options, weights, plan)
        played = task.finished(plan)
        moves = np.zeros(len(plan), np.int8)
        play_plan(task.tables, task.state, task.options, task.following, plan, moves)
        assert outcome(task.tables, task.scoring, task.state) == pytest.approx(played, rel=1e-12)
    rule_plan = random_rule_plan(task)
    played = task.finished(rule_plan)
    assert task.play(rule_plan) == pytest.approx(played, rel=1e-12)
    random_play(task)
    assert task.evaluations >= 100


def test_what_cannot_be_is_said() -> None:
    program = load("tiny")
    with pytest.raises(UserError, match="no solver is called 'nobody'; the solvers are anneal"):
        solve(program, "nobody")
    with pytest.raises(UserError, match="not known"):
        solve(program, "random", objective="nothing")
    with pytest.raises(UserError, match="never end"):
        Budget(None, None)
    with pytest.raises(UserError, match="-1"):
        Budget(-1.0)


@pytest.mark.parametrize("name", ["anneal", "cem", "restarts", "greedy", "order-search"])
def test_nothing_is_compiled_while_the_clock_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    wanted = Dispatcher._compile_for_args

    def noting(dispatcher, *args, **kwargs):  # type: ignore[no-untyped-def]
        compiled.append(dispatcher.py_func.__qualname__)
        return wanted(dispatcher, *args, **kwargs)

    def solver(task: Task) -> None:
        monkeypatch.setattr(Dispatcher, "_compile_for_args", noting)
        begun.append(len(compiled))
        SOLVERS[name](task)

    begun: list[int] = []
    solve(load("resnet50-b32-v4"), name, budget=Budget(None, 400), repack=True, solvers={name: solver})
    assert len(begun) == 2  # once to warm up
    assert compiled[begun[1] :] == []
    assert gc.get_freeze_count() == 0


def test_looks_at_the_clock_are_a_small_part_of_a_short_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setitem(task_module._CLOCKS, "wall", lambda: now[0])
    for seconds, games in ((0.2, 1), (1.0, 5), (4.0, 20), (60.0, 50)):
        now[0] = 0.0
        task = Task(load("tiny"), None, None, Budget(seconds), 0)
        now[0], task.evaluations = 2.0, 1000
        assert task.games_per_look() == games
