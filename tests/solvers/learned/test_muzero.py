"""The solver `muzero`: never worse than production, verified, seeded; policies come from files and runs."""

from pathlib import Path

import jax
import numpy as np
import pytest
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping_file import read_mapping
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.launch import learned as launch_muzero
from mallocmuzero.launch.cli import main
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.learned import Tutor, _helping, solve_muzero
from mallocmuzero.launch.run.policy import SHIPPED, load_policy
from mallocmuzero.learner.checkpoints.policy_file import read_policy, write_policy
from mallocmuzero.learner.fine_tune import FineTuner, Lessons
from mallocmuzero.learner.networks.network import Network, Params
from mallocmuzero.solvers.anneal import SEARCH
from mallocmuzero.solvers.common import task as task_module
from mallocmuzero.solvers.common.task import Budget, Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.learned import guided
from mallocmuzero.solvers.learned.guided import Guide, GuidedWalk, View, look
from mallocmuzero.solvers.learned.solver import Asking, MuZeroConfig, Promise, muzero
from numpy.typing import NDArray

NETWORK = Network(TrainConfig(workloads=("tiny",)).network)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("policy") / "fresh.policy"
    write_policy(path, NETWORK, NETWORK.init(jax.random.PRNGKey(0)), {})
    return path


def _task(evaluations: int = 400, name: str = "tiny", seed: int = 0) -> Task:
    return Task(load(name), None, None, Budget(None, evaluations), seed)


@pytest.mark.parametrize("name", ["tiny", "resnet50-b32-v4"])
def test_it_is_verified_seeded_and_never_worse_than_production(name: str, policy: Path) -> None:
    program = load(name)
    one, other = (solve_muzero(program, policy, budget=Budget(None, 300), seed=1) for _ in range(2))
    judge = make_judge(program)
    assert not verify(program, program.target, one.mapping)
    assert judge.production_s is not None
    assert one.judged_s <= judge.production_s
    assert one.judged_s == judge.judge(one.mapping)
    assert np.array_equal(one.mapping.access_fast, other.mapping.access_fast)
    assert one.judged_s == other.judged_s
    assert one.solver == "muzero"


def test_without_time_it_is_production(policy: Path) -> None:
    program = load("resnet50-b32-v4")
    solution = solve_muzero(program, policy, budget=Budget(0.0), repack=False)
    assert solution.judged_s <= (make_judge(program).production_s or 0.0)


class Doubting(Guide):
    """Doubts the fourth decision of a line, and no other."""

    def __init__(self, network: Network, params: Params, much: float) -> None:
        super().__init__(network, params)
        self._much = much

    def doubts(self, view: View) -> NDArray[np.float64]:
        found = np.zeros((len(view.access), 3))
        found[3] = self._much
        return found


def test_changes_begin_where_the_guide_doubts(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    task = _task(name="resnet50-b32-v4")

    plan = np.zeros(len(task.tables.access), np.int8)
    plain = Walk(task, plan, SEARCH)
    walk = GuidedWalk(task, plan, SEARCH, Doubting(network, params, 1e9))
    walk.aim()
    view = look(task, plan)
    shares = np.diff(walk._drawn, prepend=0.0)
    place = list(task.free).index(view.access[3])
    assert shares.sum() == pytest.approx(1.0)
    assert np.argmax(shares) == place
    own = np.diff(plain._drawn, prepend=0.0)
    assert (shares >= 0.3 * own).all()  # annealing's own chances stay


def test_what_the_policy_prefers_is_tried_and_kept_if_it_is_better(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    task = _task(name="resnet50-b32-v4")

    class Preferring(Guide):
        def doubts(self, view):  # type: ignore[no-untyped-def]
            found = np.where(view.legal, 2.0, 0.0)
            found[np.arange(len(view.move)), view.move] = 0.0
            return found

    walk = GuidedWalk(task, np.full(len(task.tables.access), 2, np.int8), SEARCH, Preferring(network, params))
    assert walk.correct(10) == 0  # nobody has asked yet
    walk.aim()
    before, alternatives = walk.current_s, len(walk._preferred)
    view = look(task, walk.plan)
    assert alternatives == view.legal.sum() - len(view.access)
    played = task.evaluations
    assert walk.correct(5) == 5
    assert walk.correct(10_000) == alternatives - 5
    assert walk.correct(10) == 0
    assert task.evaluations == played + alternatives
    assert walk.current_s < before
    plan, current = walk.plan.copy(), walk.current_s
    assert task.play(plan) == pytest.approx(current, rel=1e-12)
    walk.step(200, 0.0)  # from the states that were kept
    assert task.play(walk.best_plan) == pytest.approx(walk.best_s, rel=1e-12)
    assert walk.best_s <= current


def test_trials_that_come_to_nothing_count_against_a_decision(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    task = _task(name="resnet50-b32-v4")

    walk = GuidedWalk(task, np.zeros(len(task.tables.access), np.int8), SEARCH, Doubting(network, params, 20.0))
    own = walk._drawn.copy()
    walk.step(5, 0.0)
    assert np.array_equal(walk._drawn, own)  # nobody has asked yet
    walk.aim()
    place = list(task.free).index(look(task, walk.plan).access[3])
    first = np.diff(walk._drawn, prepend=0.0)[place]
    walk.step(100, 0.0)
    tried = np.diff(walk._drawn, prepend=0.0)[place]
    assert tried < 0.5 * first
    walk.aim()
    again = np.diff(walk._drawn, prepend=0.0)[place]
    assert tried < again < first  # what was tried in another game counts half


def test_the_policy_is_asked_about_what_is_at_stake(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, params, _ = load_policy(policy)
    task = _task(name="resnet50-b32-v4")
    asked = []

    class Asked(Guide):
        def doubts(self, view):  # type: ignore[no-untyped-def]
            asked.append(view)
            return np.zeros((len(view.access), 3))

    monkeypatch.setattr(guided, "_ROWS", 20)
    walk = GuidedWalk(task, np.zeros(len(task.tables.access), np.int8), SEARCH, Asked(network, params))
    walk.aim()
    (part,), whole = asked, look(task, walk.plan)
    assert len(part.access) == 20 < len(whole.access)
    assert (np.diff(part.access) > 0).all()
    own = dict(zip(task.free.tolist(), np.diff(Walk(task, walk.plan, SEARCH)._drawn, prepend=0.0), strict=True))
    least = min(own[access] for access in part.access.tolist())
    others = set(whole.access.tolist()) - set(part.access.tolist())
    assert all(own.get(access, 0.0) <= least + 1e-12 for access in others)
    rows = np.searchsorted(whole.access, part.access)
    assert np.array_equal(part.observation, whole.observation[rows])
    assert np.array_equal(part.move, whole.move[rows])


class Telling(Guide):
    """Takes a second to answer, and doubts nothing."""

    def __init__(self, network: Network, params: Params, now: list[float]) -> None:
        super().__init__(network, params)
        self._now = now

    def doubts(self, view: View) -> NDArray[np.float64]:
        self._now[0] += 1.0
        return np.zeros((len(view.access), 3))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock to be set by hand."""
    time = [0.0]
    monkeypatch.setitem(task_module._CLOCKS, "wall", lambda: time[0])
    return time


def _asked(policy: Path, now: list[float], **config: float) -> tuple[Asking, GuidedWalk]:
    network, params, _ = load_policy(policy)
    task = Task(load("resnet50-b32-v4"), None, None, Budget(100.0), 0)
    guide = Telling(network, params, now)
    walk = GuidedWalk(task, np.full(len(task.tables.access), 2, np.int8), SEARCH, guide)
    return Asking(task, guide, None, MuZeroConfig(**config)), walk


def test_the_policy_keeps_to_its_share_of_the_time(policy: Path, now: list[float]) -> None:
    asking, walk = _asked(policy, now, ask_share=0.1, aim_share=0.0)
    assert asking.ask(walk)  # how long it takes is not known before
    assert not asking.ask(walk)
    now[0] = 19.0
    assert not asking.ask(walk)  # a second one would make it 2 of 20
    now[0] = 20.0
    assert asking.ask(walk)
    assert not asking.ask(walk)


def test_without_a_limit_of_seconds_the_policy_is_asked_by_games_alone(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    task = _task(1000, name="resnet50-b32-v4")
    guide = Doubting(network, params, 0.0)
    walk = GuidedWalk(task, np.zeros(len(task.tables.access), np.int8), SEARCH, guide)
    asking = Asking(task, guide, None, MuZeroConfig(aim_share=0.1, ask_share=0.0))
    when = []
    while not task.done:
        if asking.ask(walk):
            when.append(task.evaluations)
        walk.step(10, 0.0)
    assert len(when) > 2


def test_a_policy_that_gains_less_than_walking_is_asked_less_often(policy: Path, now: list[float]) -> None:
    asking, walk = _asked(policy, now, ask_share=1.0, aim_share=0.05, rest_share=0.3)
    when = []
    while now[0] < 100.0:
        if asking.ask(walk):
            when.append(now[0])
        now[0] += 1.0
    # Nothing is gained by anyone: it rests for 10, 20, then 30 of 100 seconds, not for 5.
    assert np.diff(when).tolist() == pytest.approx([10.0, 20.0, 30.0, 30.0], abs=2.0)


def test_a_policy_that_gains_is_asked_as_often_as_may_be(policy: Path, now: list[float]) -> None:
    network, params, _ = load_policy(policy)
    asking, walk = _asked(policy, now, ask_share=1.0, aim_share=0.05, rest_share=0.3)

    class Preferring(Telling):
        def doubts(self, view):  # type: ignore[no-untyped-def]
            found = super().doubts(view)
            found[view.legal] = 2.0
            found[np.arange(len(view.move)), view.move] = 0.0
            found[3 * len(when) + 3 :] = 0.0  # a few at a time
            return found

    walk._guide = Preferring(network, params, now)
    when: list[float] = []
    gains = []
    while len(when) < 6:
        before = walk.best_s
        if asking.ask(walk):
            when.append(now[0])
            gains.append(before - walk.best_s)
        now[0] += 1.0
    waited = np.diff(when)
    assert sum(gain > 0.0 for gain in gains[:-1]) >= 2
    assert all(wait <= 7.0 for wait, gain in zip(waited, gains, strict=False) if gain > 0.0)


def _searched(to_beat_s: float, bests: list[tuple[float, float]]) -> float:
    """Returns what a search spent that came to `bests`, shares of its time and seconds, before it was given up.

    Production takes 200 seconds.
    """
    task = _task(1000)
    production_s = task.game.judge.production_s
    assert production_s is not None
    unit = production_s / 200.0
    task.best_s = to_beat_s * unit
    promise = Promise(task, MuZeroConfig(order_least=0.1, order_most=0.5))
    part = _task(1000)
    for evaluations in range(1001):
        part.evaluations = evaluations
        part.best_s = unit * next((s for at, s in reversed(bests) if at <= evaluations / 1000), np.inf)
        if promise.lost(part):
            return evaluations / 1000
    return 1.0


def test_orders_are_searched_while_they_could_still_be_better() -> None:
    steady = [(0.01 + 0.01 * k, 100.0 - 0.1 * k) for k in range(100)]
    assert _searched(99.0, steady) == 1.0  # gains all the time
    assert _searched(99.0, [(0.01, 98.0)]) == 0.2  # leads, but gains nothing more
    assert _searched(50.0, steady) == 0.2  # gains, but is far behind
    late = [(0.01, 100.0), (0.15, 97.0)]
    assert _searched(98.0, late) == pytest.approx(0.3, abs=0.01)  # gave up at twice the time of its last gain
    assert _searched(200.0, [(0.01, 200.0)]) == 1.0  # nothing is better than production yet
    assert _searched(200.0, [(0.01, 201.0), (0.3, 199.0)]) == pytest.approx(0.6, abs=0.01)
    assert _searched(199.0, [(0.01, 200.0)]) == 0.2


def test_lessons_are_for_budgets_that_they_are_a_small_part_of(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taught = []
    monkeypatch.setattr(launch_muzero, "muzero", lambda task, guide, tutor, config: taught.append(tutor is not None))
    monkeypatch.setattr(FineTuner, "compile", lambda self: 0.01)
    solver = launch_muzero.muzero_solver(policy)
    for seconds in (1.0, 5.9, 6.1, None):
        solver(Task(load("tiny"), None, None, Budget(seconds, 10), 0))
    assert taught == [False, False, True, True]


def test_the_wishes_of_a_view_lead_to_its_moves(policy: Path) -> None:
    task = _task(name="resnet50-b32-v4")
    plan = task.generator.integers(0, 3, len(task.tables.access)).astype(np.int8)
    view = look(task, plan)
    for row in range(0, len(view.access), 7):
        for move in np.flatnonzero(view.legal[row]):
            other = plan.copy()
            other[view.access[row]] = view.preference[row, move]
            again = look(task, other)
            same = int(np.flatnonzero(again.access == view.access[row])[0])
            assert again.move[same] == move


def test_a_view_shows_what_a_player_of_the_game_sees() -> None:
    task = _task(name="resnet50-b32-v4")
    plan = task.generator.integers(0, 3, len(task.tables.access)).astype(np.int8)
    view = look(task, plan)
    assert len(view.access) > 20
    assert (np.diff(view.access) > 0).all()
    assert view.legal[np.arange(len(view.move)), view.move].all()
    assert (view.legal.sum(axis=1) > 1).all()
    assert np.isfinite(view.observation).all()
    assert (np.abs(view.observation).sum(axis=1) > 0).all()


def test_doubts_are_ratios_of_the_policy(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    params = jax.tree.map(lambda leaf: leaf + 0.05 * jax.random.normal(jax.random.PRNGKey(5), leaf.shape), params)
    task = _task(name="resnet50-b32-v4")
    view = look(task, np.zeros(len(task.tables.access), np.int8))
    doubts = Guide(network, params).doubts(view)
    logits = np.asarray(network.initial_inference(params, view.observation).policy_logits)
    for row in range(len(view.access)):
        for move in range(3):
            if move == view.move[row] or not view.legal[row, move]:
                assert doubts[row, move] == 0.0
            else:
                expected = np.exp(logits[row, move] - logits[row, view.move[row]])
                assert doubts[row, move] == pytest.approx(expected, rel=1e-3)


def test_lessons_teach_what_they_say(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    tuner = FineTuner(network, params, learning_rate=3e-3)
    generator = np.random.default_rng(0)
    observation = generator.normal(size=(40, NETWORK.config.observation_size)).astype(np.float32)
    legal = np.ones((40, 3), np.bool_)
    wanted = np.where(observation[:, :1] > 0, [[0.9, 0.1, 0.0]], [[0.0, 0.1, 0.9]]).astype(np.float32)
    first = tuner.learn(Lessons(observation, legal, wanted), 1, generator)
    last = tuner.learn(Lessons(observation, legal, wanted), 60, generator)
    assert last < first
    assert tuner.learn(Lessons(observation, legal, wanted), 20, generator) < 0.7 * first
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(load_policy(policy).params), strict=True)
    )


def test_compiling_a_tuner_changes_nothing_that_it_learns(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    generator = np.random.default_rng(1)
    lessons = Lessons(
        generator.normal(size=(70, NETWORK.config.observation_size)).astype(np.float32),
        np.ones((70, 3), np.bool_),
        np.tile(np.array([[0.2, 0.3, 0.5]], np.float32), (70, 1)),
    )
    plain, compiled = FineTuner(network, params), FineTuner(network, params)
    compiled.compile()
    assert compiled.params is params
    losses = [tuner.learn(lessons, 3, np.random.default_rng(2)) for tuner in (plain, compiled)]
    assert losses[0] == losses[1]
    assert all(
        np.array_equal(a, b)
        for a, b in zip(jax.tree.leaves(plain.params), jax.tree.leaves(compiled.params), strict=True)
    )


def test_a_tutor_gives_the_guide_new_parameters(policy: Path) -> None:
    network, params, _ = load_policy(policy)
    task = _task(name="resnet50-b32-v4")
    guide = Guide(network, params)
    task.play(np.zeros(len(task.tables.access), np.int8))
    before = task.evaluations
    plan = np.zeros(len(task.tables.access), np.int8)
    helping = Tutor(network, params, task)(task, plan, guide)
    assert task.evaluations > before + 10
    assert guide.params is not params
    seconds = [task.play(np.where(np.arange(len(plan)) == access, preference, plan)) for access, preference in helping]
    assert len(seconds) > 3
    assert max(seconds) < task.play(plan)
    assert seconds == sorted(seconds, reverse=True)
    walk = GuidedWalk(task, plan, SEARCH, guide)
    walk.suggest(helping)
    assert walk.correct(1) == 1
    assert walk.current_s == pytest.approx(min(seconds), rel=1e-12)


def test_what_helps_is_known_where_the_line_s_own_move_is_legal() -> None:
    inf = np.inf
    view = View(
        np.array([4, 7, 9]),
        np.array([0, 1, 2]),
        np.zeros((3, NETWORK.config.observation_size), np.float32),
        np.array([[True, True, True], [True, False, True], [True, True, True]]),
        np.array([[0, 1, 2], [0, 1, 2], [0, 1, 2]], np.int8),
    )
    seconds = np.array([[5.0, 4.0, 6.0], [3.0, inf, 2.0], [1.0, inf, 3.0]])
    assert _helping(seconds, view) == [(4, 1), (9, 0)]  # the line waits at 7, which is no move of the game


def test_without_a_guide_it_walks_as_annealing_does() -> None:
    task = _task(300)
    muzero(task, None)
    assert task.evaluations >= 300
    assert task.best_s < np.inf


def test_the_command(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "m.json.gz"
    arguments = ["solve", "tiny", "--solver", "muzero", "--evaluations", "200", "-o", str(out)]
    assert main([*arguments, "--policy", str(policy)]) == 0
    assert "muzero (verified)" in capsys.readouterr().out
    assert not verify(load("tiny"), load("tiny").target, read_mapping(out, load("tiny")))
    assert main(["solve", "tiny", "--solver", "anneal", "--policy", str(policy), "-o", str(out)]) == 2
    assert "--policy goes with --solver muzero" in capsys.readouterr().err
    assert main([*arguments, "--policy", str(tmp_path / "none.policy")]) == 2
    assert "none.policy: cannot be read" in capsys.readouterr().err
    assert main(["solve", "tiny", "--solver", "alphago", "-o", str(out)]) == 2
    assert "muzero" in capsys.readouterr().err


def test_the_shipped_policy_says_where_it_comes_from() -> None:
    policy = read_policy(SHIPPED)
    assert policy.network.config == NETWORK.config
    held_out = ("bert", "llama", "lstm", "mixer", "convnext", "alphatensor", "strassen")
    names = [entry["name"] for entry in policy.info["programs"]]
    assert len(names) > 20
    assert not any(name.startswith(held_out) for name in names)
    for field in ("config", "seed", "code", "curve", "step"):
        assert policy.info[field] is not None
    assert SHIPPED.stat().st_size < 5e6


def test_a_run_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        load_policy(tmp_path)
