"""Self-play in the residency game: steps, reports, repetition and resumption."""

import dataclasses
import json

import numpy as np
import pytest
from actor_cases import skips, steps
from residency_cases import CONFIG, make_residency_actor

from mallocmuzero.actors.self_play import residency_programs
from mallocmuzero.actors.self_play.best_mappings import BestMappings
from mallocmuzero.actors.self_play.residency_config import MODEL, ResidencyConfig
from mallocmuzero.actors.self_play.residency_programs import ResidencyPool
from mallocmuzero.actors.self_play.residency_slot import ResidencySlot
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.plan import digits_of
from mallocmuzero.env.residency.observation import CHANGED_SHARE
from mallocmuzero.env.residency.seat import play_turns
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.segment import Step

MOVES = 90


def same(one: list[Step], other: list[Step]) -> bool:
    return len(one) == len(other) and all(
        np.array_equal(np.asarray(left), np.asarray(right), equal_nan=True)
        for a, b in zip(one, other, strict=True)
        for left, right in zip(a, b, strict=True)
    )


def test_steps_carry_exact_outcomes_and_returns() -> None:
    actor, writers = make_residency_actor()
    report = actor.play(MOVES)
    assert report.moves == MOVES == actor.moves
    played = [episode for writer in writers for episode in writer.episodes[:-1]]
    assert len(played) > 5
    for episode in played:
        assert len(episode) <= CONFIG.residency.moves
        assert [step.discount for step in episode] == [1.0] * (len(episode) - 1) + [0.0]
        returns = np.cumsum([step.reward for step in episode][::-1])[::-1]
        for step, value in zip(episode, returns, strict=True):
            assert step.outcome is not None
            assert step.legal[step.action]
            assert step.reward == pytest.approx(step.outcome[step.action], abs=1e-4)
            assert step.value == pytest.approx(value, abs=1e-4)
            np.testing.assert_array_equal(step.legal, ~np.isnan(step.outcome))
            assert step.policy.sum() == pytest.approx(1.0, abs=1e-4)


def test_best_plans_become_verified_mappings() -> None:
    programs = [skips(), skips(7, "longer")]
    actor, _ = make_residency_actor(programs)
    best = BestMappings(programs, CONFIG)
    kept = [best.offer(episode) for _ in range(4) for episode in actor.play(MOVES).episodes]
    assert any(kept)
    for program in programs:
        if program.name in best:
            assert not verify(program, program.target, best[program.name].mapping)
    lines = best.lines({})
    assert {len(plan) for name, (_, plan) in lines.items()} <= {program.num_accesses for program in programs}
    actor.offer_lines(lines)


def test_games_are_counted_once_and_reported_with_their_own_seconds() -> None:
    programs = [skips(), skips(7, "longer")]
    actor, _ = make_residency_actor(programs)
    reports = [actor.play(MOVES) for _ in range(4)]
    reported = [episode for report in reports for episode in report.episodes]
    games = [episode for episode in reported if episode.finished]
    assert len(games) == sum(slot["games"] for slot in actor.state()["rounds"]) > 1
    assert not any(episode.actions for episode in games)
    best = {program.name: np.inf for program in programs}
    for episode in reported:
        if not episode.finished:
            assert len(episode.actions) > 0
            assert episode.latency_s < best[episode.program]
            best[episode.program] = episode.latency_s
    assert all(episode.latency_s >= best[episode.program] for episode in games)
    assert len({episode.latency_s for episode in games}) > len(programs)


def test_a_plan_found_on_a_program_that_has_made_way_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency_programs, "_MOST_MADE", 2)
    pool = ResidencyPool([skips(length, f"skips-{length}") for length in (6, 7, 8)], CONFIG)
    playing = pool[0]
    assert pool[1] is not pool[2]
    plan = playing.best[1]
    playing.offer(1e-9, plan)  # The first has made way for the third.
    assert pool.saved()[0] == [1e-9, digits_of(plan)]
    assert pool[0] is not playing
    assert pool[0].best[0] == 1e-9


def test_equal_seeds_play_equal_games_and_a_resumed_actor_goes_on_bit_for_bit() -> None:
    whole, writers = make_residency_actor()
    whole.play(MOVES)
    before = [len(steps(writer)) for writer in writers]
    state = json.loads(json.dumps(whole.state()))
    whole.play(MOVES)
    resumed, further = make_residency_actor()
    resumed.restore(state)
    resumed.play(MOVES)
    for writer, other, count in zip(writers, further, before, strict=True):
        assert same(steps(writer)[count:], steps(other))
    again, writers_again = make_residency_actor()
    again.play(2 * MOVES)
    assert all(same(steps(one), steps(two)) for one, two in zip(writers, writers_again, strict=True))


def make_slot(rounds_per_score: int) -> ResidencySlot:
    residency = dataclasses.replace(
        CONFIG.residency, rounds_per_score=rounds_per_score, uniform=0.5, kick=0.0, rounds=1000, idle_rounds=1000
    )
    config = dataclasses.replace(CONFIG, residency=residency)
    return ResidencySlot(ResidencyPool([load("alexnet-train-b128")], config), 0, residency, 0)


def draw(slot: ResidencySlot) -> list[int]:
    """Draws candidates, all of the same score, and begins a round with the first ones; returns those."""
    assert slot.look()
    play_turns(np.array([slot.address], np.int64), 0, 1)
    slot.propose(lambda rows, stay, placement: np.zeros(len(stay), np.float32))
    return begin_round(slot)


def begin_round(slot: ResidencySlot) -> list[int]:
    assert slot.begin()
    play_turns(np.array([slot.address], np.int64), 0, 1)
    slot.begun()
    assert slot.round is not None
    return slot.round.candidates.tolist()


def stop(slot: ResidencySlot) -> None:
    actions = CONFIG.residency.candidates + 1
    slot.choose(actions - 1, np.zeros(1, np.float32), np.zeros(actions, np.float32))
    play_turns(np.array([slot.address], np.int64), 0, 1)
    slot.take()


def test_several_rounds_share_one_scoring_and_offer_each_change_once() -> None:
    slot = make_slot(rounds_per_score=3)
    offered = draw(slot)
    for _ in range(2):
        stop(slot)
        assert not slot.look()
        offered += begin_round(slot)
    assert len(set(offered)) == len(offered) == 3 * CONFIG.residency.candidates
    stop(slot)
    assert slot.look()


def test_changes_that_were_offered_in_vain_come_last() -> None:
    slot = make_slot(rounds_per_score=1)
    rounds, count = 40, CONFIG.residency.candidates
    offered = []
    for _ in range(rounds):
        offered += draw(slot)
        stop(slot)
    # By chance alone, drawing so often from so many would repeat more than this.
    number = len(slot.context.changes.stay)
    by_chance = number * (1.0 - (1.0 - 1.0 / number) ** (rounds * count))
    assert len(set(offered)) > 0.5 * (by_chance + rounds * count)


def test_no_candidate_places_a_stay_as_it_is() -> None:
    slot = make_slot(rounds_per_score=1000)
    draw(slot)
    rows, changes = slot._seat.observer.stays, slot.context.changes
    left = slot._queue
    assert 0 < len(left) < len(changes.stay)
    assert (rows[changes.stay[left], CHANGED_SHARE + changes.placement[left]] > 0.0).all()


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_play_what_one_thread_plays(threads: int) -> None:
    config = dataclasses.replace(CONFIG, games=12)
    alone, together = dataclasses.replace(config, threads=1), dataclasses.replace(config, threads=threads)
    one, writers = make_residency_actor(config=alone)
    many, others = make_residency_actor(config=together)
    one.play(10 * config.games)
    many.play(10 * config.games)
    assert one.state() == many.state()
    assert sum(len(steps(writer)) for writer in writers) > 8 * config.games
    assert all(same(steps(left), steps(right)) for left, right in zip(writers, others, strict=True))


def test_a_full_replay_loses_nothing() -> None:
    actor, writers = make_residency_actor(refuse=7)
    reference, wanted = make_residency_actor()
    reference.play(MOVES)
    while actor.moves < MOVES:
        try:
            actor.play(CONFIG.games)
        except ReplayTimeout:
            continue
    while True:
        try:
            actor._write_pending()
            break
        except ReplayTimeout:
            continue
    assert all(same(steps(one), steps(two)) for one, two in zip(writers, wanted, strict=True))


def test_the_model_may_judge_the_root() -> None:
    config = dataclasses.replace(CONFIG, residency=dataclasses.replace(CONFIG.residency, root=MODEL))
    actor, writers = make_residency_actor(config=config)
    assert actor.play(30).moves == 30
    assert any(steps(writer) for writer in writers)


def test_a_state_of_another_actor_is_refused() -> None:
    actor, _ = make_residency_actor()
    state = actor.state()
    with pytest.raises(UserError, match="another game"):
        actor.restore({key: value for key, value in state.items() if key != "rounds"})
    with pytest.raises(UserError, match="has 1 games"):
        actor.restore({**state, "rounds": state["rounds"][:1]})
    with pytest.raises(UserError, match="has 1 programs"):
        actor.restore({**state, "plans": state["plans"][:1]})
    broken = {**state["rounds"][0], "plan": "0"}
    with pytest.raises(UserError, match="does not fit program"):
        actor.restore({**state, "rounds": [broken, *state["rounds"][1:]]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"candidates": 0}, "candidates"),
        ({"uniform": 1.5}, "uniform"),
        ({"root": "guess"}, "root"),
        ({"temperature": 0.0}, "temperature"),
        ({"rounds_per_score": 0}, "rounds_per_score"),
    ],
)
def test_settings_are_checked(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ResidencyConfig(**values)  # type: ignore[arg-type]
