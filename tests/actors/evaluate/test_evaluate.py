"""Evaluation, reference players and the store of best mappings: nothing counts before it is verified."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from actor_cases import NETWORK, SEARCH, parameters, skips, skips_with_cycles

from mallocmuzero.actors.evaluate.evaluate import (
    REFERENCE_PLAYERS,
    evaluate_mapping,
    evaluate_network,
    evaluate_references,
)
from mallocmuzero.actors.self_play.best_mappings import BestMappings
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.episode import EpisodeResult
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.common.greedy_rules import play_greedy

CONFIG = ActorConfig(games=2)


def episode(program: Program, player: str, seed: int = 0) -> EpisodeResult:
    game = MallocGame(program)
    REFERENCE_PLAYERS[player](game, np.random.default_rng(seed))
    return EpisodeResult(program.name, game.latency_s, 0.0, list(game.actions), game.decisions, 0, 0, 1)


@pytest.mark.parametrize("name", sorted(REFERENCE_PLAYERS))
def test_players_finish_with_legal_mappings(name: str) -> None:
    program = skips()
    game = MallocGame(program)
    REFERENCE_PLAYERS[name](game, np.random.default_rng(0))
    assert game.done
    assert verify(program, program.target, game.mapping()) == []
    assert game.latency_s <= game.all_hbm_s


def test_greedy_beats_random_and_plays_the_line_it_reports() -> None:
    program = skips()
    game = MallocGame(program)
    play_greedy(game)
    again = MallocGame(program)
    again.play(game.actions)
    assert again.latency_s == game.latency_s
    randoms = [episode(program, "random", seed).latency_s for seed in range(10)]
    assert game.latency_s < np.mean(randoms)


def test_references_are_verified_and_production_is_among_them() -> None:
    rows = {row.solver: row for row in evaluate_references(skips(), CONFIG, seed=0)}
    assert set(rows) == {"all-hbm", "random", "greedy", "production"}
    assert all(row.verified for row in rows.values())
    assert rows["greedy"].latency_us < rows["all-hbm"].latency_us
    assert rows["production"].latency_us == rows["all-hbm"].latency_us == rows["greedy"].production_us


@pytest.mark.parametrize("objective", [None, "robust", "msa", "cycles"])
def test_evaluations_name_their_objective_and_show_both_latencies(objective: str | None) -> None:
    program = skips_with_cycles()
    config = dataclasses.replace(CONFIG, objective=objective)
    rows = {row.solver: row for row in evaluate_references(program, config, seed=0)}
    judge = config.judge(program)
    for row in rows.values():
        assert row.model == (objective or "robust")
        assert None not in (row.model_us["msa"], row.model_us["cycles"])
        seconds = {model: us / 1e6 for model, us in row.model_us.items() if us is not None}
        assert row.latency_us == pytest.approx(judge.seconds(seconds) * 1e6)
        assert row.production_us is not None
        assert row.latency_us / row.production_us == pytest.approx(judge.ratio(seconds))
        assert row.exact is not None
        assert 0 < row.exact <= 1
    assert rows["greedy"].latency_us < rows["all-hbm"].latency_us


@pytest.mark.parametrize("objective", ["robust", "msa", "cycles"])
def test_the_best_mapping_is_kept_by_the_objective(objective: str, tmp_path: Path) -> None:
    program = skips_with_cycles()
    config = dataclasses.replace(CONFIG, objective=objective)
    best = BestMappings([program], config)
    latencies = []
    for seed in range(6):
        game = config.game(program)
        REFERENCE_PLAYERS["random"](game, np.random.default_rng(seed))
        latencies.append(config.judge(program).judge(game.mapping()))
        actions = list(game.actions)
        best.offer(EpisodeResult(program.name, game.latency_s, 0.0, actions, game.decisions, 0, 0, 1))
    assert best[program.name].latency_s == pytest.approx(min(latencies))
    best.save(tmp_path)
    restarted = BestMappings([program], config)
    restarted.load(tmp_path)
    assert restarted[program.name].latency_s == best[program.name].latency_s


def test_an_illegal_mapping_is_reported_as_such() -> None:
    program = skips()
    lies = dataclasses.replace(all_hbm(program), access_fast=np.ones(program.num_accesses, bool))
    assert not evaluate_mapping(CONFIG.judge(program), lies, "liar").verified


def test_policy_and_search_are_labelled_apart_and_repeat() -> None:
    programs = [skips(3, "short"), skips(5, "long")]
    for search, solver, simulations in ((None, "muzero-policy", 0), (SEARCH, "muzero-search", 4)):
        rows = evaluate_network(NETWORK, parameters(), programs, CONFIG, search)
        again = evaluate_network(NETWORK, parameters(), programs, CONFIG, search)
        assert [row.program for row in rows] == ["short", "long"]
        for row, other in zip(rows, again, strict=True):
            assert row.solver == solver
            assert row.simulations == simulations
            assert row.verified
            assert row.latency_us == other.latency_us


def test_the_best_mapping_is_kept_verified_and_survives_a_restart(tmp_path: Path) -> None:
    program = skips()
    best = BestMappings([program], CONFIG)
    good, bad = episode(program, "greedy"), episode(program, "random")
    assert bad.latency_s > good.latency_s
    assert best.offer(bad)
    assert best.offer(good)
    assert not best.offer(bad)
    assert best["skips"].latency_s == good.latency_s
    (path,) = best.save(tmp_path)
    restarted = BestMappings([program], CONFIG)
    restarted.load(tmp_path)
    assert restarted["skips"].latency_s == good.latency_s
    assert not restarted.offer(bad)
    other = BestMappings([skips(4, "skips")], CONFIG)
    with pytest.raises(UserError, match="belongs to another program"):
        other.load(tmp_path)
    path.write_bytes(b"broken")
    with pytest.raises(UserError, match="not a gzip file"):
        BestMappings([program], CONFIG).load(tmp_path)


def test_a_result_that_does_not_replay_is_an_error() -> None:
    program = skips()
    lie = dataclasses.replace(episode(program, "greedy"), latency_s=1e-9)
    with pytest.raises(RuntimeError, match="replay to"):
        BestMappings([program], CONFIG).offer(lie)
