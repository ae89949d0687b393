"""The figures of a diagnosis, against values worked out another way."""

from typing import cast

import jax.numpy as jnp
import numpy as np
import pytest
import scipy
from diagnosis_cases import DISCOUNT, NETWORK, ByHeart, agent, line_of_production, scrambled
from launch_cases import WORKLOAD

from mallocmuzero.actors.diagnosis.changes import find_changes
from mallocmuzero.actors.diagnosis.inference import infer, search_moves
from mallocmuzero.actors.diagnosis.model import compare_model
from mallocmuzero.actors.diagnosis.policy import describe_policy, entropies
from mallocmuzero.actors.diagnosis.trace import record_policy
from mallocmuzero.actors.diagnosis.value import calibrate
from mallocmuzero.actors.search.search import greedy
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.env.game.moves import MOVE_NAMES
from mallocmuzero.env.game.plan import preference_for
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.learner.networks.network import Network
from mallocmuzero.solvers.common.line import nearest_move, play_to_end

HORIZON = 6


def test_a_trace_is_the_game_and_its_rewards_are_its_score() -> None:
    played, line, trace = line_of_production("tiny")
    game = played.new_game()
    for decision, action in enumerate(line.actions.tolist()):
        assert np.array_equal(trace.observation[decision], game.observe())
        assert np.array_equal(trace.legal[decision], game.legal)
        game.step(action)
    assert game.done
    assert trace.latency_s == game.latency_s == pytest.approx(line.latency_s, rel=1e-12)
    gained_s = played.rollout_latency_s(played.new_game(), played.first) - game.latency_s
    assert trace.reward.sum() * played.scale.unit_s == pytest.approx(gained_s, abs=1e-15)
    for start in (0, 5, len(trace) - 1):
        powers = DISCOUNT ** np.arange(len(trace) - start)
        assert trace.value[start] == pytest.approx(float(powers @ trace.reward[start:]))


def test_the_policys_game_is_its_first_choices() -> None:
    played, _, _ = line_of_production("tiny")
    params = scrambled()
    trace = record_policy(played, NETWORK, params, DISCOUNT, played.first)
    assert trace.action.tolist() == np.asarray(greedy(NETWORK, params, trace.observation, trace.legal)).tolist()


def test_many_positions_are_seen_as_one_batch_sees_them() -> None:
    observations = np.random.default_rng(0).normal(size=(300, NETWORK.config.observation_size)).astype(np.float32)
    params = scrambled()
    heads, output = infer(NETWORK, params, observations), NETWORK.initial_inference(params, jnp.asarray(observations))
    assert heads.latent == pytest.approx(np.asarray(output.latent), abs=1e-4)
    assert heads.value == pytest.approx(np.asarray(output.value), abs=1e-3)
    assert heads.logits == pytest.approx(np.asarray(output.policy_logits), abs=1e-3)


def test_a_model_that_knows_the_line_makes_no_error() -> None:
    _, _, trace = line_of_production("tiny")
    assert len(np.unique(trace.observation, axis=0)) == len(trace)  # else nobody could know the place
    network = cast(Network, ByHeart(trace))
    heads = infer(network, {}, trace.observation)
    errors = compare_model(network, {}, trace, heads, horizon=HORIZON, starts=256, discount=DISCOUNT, seed=0)
    assert errors.starts == len(trace)
    assert [depth.states for depth in errors.depths] == [len(trace) - k for k in range(HORIZON + 1)]
    assert errors.depths[0].reward_error is None
    for depth in errors.depths:
        for name in ("reward_error", "value_error", "seen_value_error", "backup_error", "policy_kl", "illegal_mass"):
            if depth.depth or name != "reward_error":
                assert getattr(depth, name) == pytest.approx(0.0, abs=1e-4), name
        assert (depth.cosine, depth.projected_cosine, depth.same_move) == pytest.approx((1.0, 1.0, 1.0))
    value = calibrate(heads.value, trace.value, 20.0)
    assert (value.slope, value.correlation, value.explained) == pytest.approx((1.0, 1.0, 1.0), abs=1e-4)
    assert value.mean_abs_error == pytest.approx(0.0, abs=1e-5)


def test_known_errors_are_found() -> None:
    _, _, trace = line_of_production("tiny")
    network = cast(Network, ByHeart(trace, reward_off=0.5, value_off=-2.0))
    heads = infer(network, {}, trace.observation)
    errors = compare_model(network, {}, trace, heads, horizon=HORIZON, starts=8, discount=DISCOUNT, seed=3)
    assert errors.starts == 8
    for depth in errors.depths:
        assert depth.value_bias == pytest.approx(-2.0, abs=1e-4)
        assert depth.value_error == depth.seen_value_error == pytest.approx(2.0, abs=1e-4)
        earned = 0.5 * sum(DISCOUNT**step for step in range(depth.depth))
        assert depth.backup_error == pytest.approx(abs(earned - 2.0 * DISCOUNT**depth.depth), abs=1e-4)
        if depth.depth:
            assert depth.reward_error == depth.reward_bias == pytest.approx(0.5, abs=1e-4)


def test_a_model_is_compared_step_by_step() -> None:
    """Against one start after the other, and probabilities instead of their logarithms."""
    _, _, trace = line_of_production("tiny")
    params = scrambled()
    seen = infer(NETWORK, params, trace.observation)
    errors = compare_model(NETWORK, params, trace, seen, horizon=3, starts=256, discount=DISCOUNT, seed=0)
    rewards, kls, masses, cosines = [], [], [], []
    for start in range(len(trace) - 3):
        latent = NETWORK.initial_inference(params, trace.observation[start][None]).latent
        for step in range(start, start + 3):
            output = NETWORK.recurrent_inference(params, latent, jnp.asarray(trace.action[step : step + 1]))
            latent = output.latent
        there = start + 3
        legal = trace.legal[there]
        real, imagined = (np.exp(np.asarray(x, np.float64)) for x in (seen.logits[there], output.policy_logits[0]))
        rewards.append(abs(float(output.reward[0]) - trace.reward[there - 1]))
        kls.append(scipy.stats.entropy(real[legal], imagined[legal]))
        masses.append(imagined[~legal].sum() / imagined.sum())
        pair = np.asarray(latent[0]), seen.latent[there]
        cosines.append(pair[0] @ pair[1] / np.linalg.norm(pair[0]) / np.linalg.norm(pair[1]))
    deepest = errors.depths[3]
    assert deepest.states == len(rewards)
    found = deepest.reward_error, deepest.policy_kl, deepest.illegal_mass, deepest.cosine
    assert found == pytest.approx([np.mean(f) for f in (rewards, kls, masses, cosines)], rel=1e-3)
    assert deepest.policy_kl is not None
    assert deepest.policy_kl > 1e-4


def test_calibration_is_a_regression() -> None:
    generator = np.random.default_rng(0)
    predicted = generator.normal(size=200)
    true = 3.0 * predicted - 1.0 + generator.normal(size=200)
    value, line = calibrate(predicted, true, 2.0), scipy.stats.linregress(predicted, true)
    assert (value.slope, value.intercept, value.correlation) == pytest.approx((line.slope, line.intercept, line.rvalue))
    assert value.mean_error == pytest.approx(np.mean(predicted) - np.mean(true))
    assert value.mean_abs_error == pytest.approx(np.mean(np.abs(predicted - true)))
    assert value.explained == pytest.approx(1.0 - np.mean((predicted - true) ** 2) / np.var(true))
    assert value.clipped == np.mean((true > 2.0) | (true < -2.0))
    assert [b.decisions for b in value.bins] == [20] * 10
    lowest = np.argsort(predicted)[:20]
    assert value.bins[0].true == pytest.approx(true[lowest].mean())
    assert [b.predicted for b in value.bins] == sorted(b.predicted for b in value.bins)
    same = calibrate(np.ones(7), true[:7], 2.0)
    assert (same.slope, same.intercept, same.correlation) == (None, None, None)
    assert len(same.bins) == 7
    assert calibrate(predicted, np.zeros(200), 2.0).explained is None


def test_the_policy_is_described() -> None:
    _, _, trace = line_of_production("tiny")
    logits = 4.0 * np.random.default_rng(0).normal(size=trace.legal.shape)
    figures = describe_policy(trace, logits)
    rows = []
    for logit, legal, action in zip(logits, trace.legal, trace.action, strict=True):
        weights = np.where(legal, np.exp(logit), 0.0)
        weights /= weights.sum()
        rows.append(
            (legal.sum(), scipy.stats.entropy(weights), weights.max() > 0.9, weights.argmax(), action, weights[action])
        )
    count, entropy_of, sure, favourite, action, probability = (np.array(column) for column in zip(*rows, strict=True))
    assert entropies(logits, trace.legal) == pytest.approx(entropy_of)
    assert figures.sure == sure.mean()
    assert figures.agreement == (favourite == action).mean()
    assert figures.probability == pytest.approx(probability.mean())
    assert 0.0 < figures.sure < 1.0
    assert sum(choices.decisions for choices in figures.by_legal) == figures.decisions == len(trace)
    for choices in figures.by_legal:
        here = count == choices.legal
        assert choices.decisions == here.sum() > 0
        assert choices.entropy == pytest.approx(entropy_of[here].mean())
        assert choices.uniform == np.log(choices.legal)
        assert (choices.sure, choices.agreement) == (sure[here].mean(), (favourite == action)[here].mean())
    for line, name in enumerate(MOVE_NAMES):
        for own, liked in enumerate(MOVE_NAMES):
            assert figures.moves[name][liked] == ((action == line) & (favourite == own)).sum()


@pytest.mark.parametrize(("workload", "objective"), [("tiny", None), (WORKLOAD, "msa")])
def test_what_changes_are_worth_is_what_the_judge_says_of_their_mappings(workload: str, objective: str | None) -> None:
    played, line, trace = line_of_production(workload, objective)
    judge = played.new_game().judge
    production_s = judge.production_s
    assert production_s is not None
    probability = np.where(trace.legal, np.random.default_rng(0).random(trace.legal.shape), 0.0)
    probability /= probability.sum(-1, keepdims=True)
    preferred = probability.argmax(-1)
    found, agent_moves, random = find_changes(
        played, line, trace, preferred=preferred, probability=probability, production_s=production_s, seed=0
    )

    def replay(decision: int, move: int) -> dict[str, float]:
        game = played.game_after([*line.actions[:decision].tolist(), move])
        play_to_end(game, line.preferences)
        assert not verify(game.program, game.program.target, game.mapping())
        return judge.latencies(game.mapping())

    alone = judge.latencies(played.game_after(line.actions.tolist()).mapping())
    assert found.line_us == pytest.approx(judge.seconds(alone) * 1e6)
    wanted = {k for k in range(len(trace)) if preferred[k] != trace.action[k]}
    assert {change.decision for change in found.changes} == wanted == set(agent_moves.decision.tolist())
    for change in found.changes:
        latencies = replay(change.decision, MOVE_NAMES.index(change.agent_move))
        gain_us = (judge.seconds(alone) - judge.seconds(latencies)) * 1e6
        assert change.gain_us == pytest.approx(gain_us, abs=1e-5)
        assert change.gain_of_production * production_s * 1e6 == pytest.approx(change.gain_us)
        by_model = {model: (alone[model] - latencies[model]) * 1e6 for model in judge.models}
        assert change.model_gain_us == {model: pytest.approx(gain, abs=1e-5) for model, gain in by_model.items()}
        assert change.effect == ("neutral" if abs(gain_us) < 1e-5 else "helps" if gain_us > 0 else "hurts")
        game = played.game_after(line.actions[: change.decision].tolist())
        assert f"{change.instruction_name}: {change.use} {change.buffer_name} (" in game.describe()
        assert change.line_move == MOVE_NAMES[trace.action[change.decision]]
        assert change.agent_probability == probability[change.decision].max() > change.line_probability
    surest = [change.agent_probability for change in found.changes]
    assert surest == sorted(surest, reverse=True)
    effects = [change.effect for change in found.changes]
    assert [effects.count(e) for e in ("helps", "neutral", "hurts")] == [
        found.agent.helps,
        found.agent.neutral,
        found.agent.hurts,
    ]
    gains = np.array([change.gain_us for change in found.changes])
    assert found.agent.gain_us == pytest.approx(gains[gains > 0].sum())
    assert found.agent.loss_us == pytest.approx(-gains[gains < 0].sum())
    assert found.agent.helps_share == found.agent.helps / len(wanted)
    odds = [np.log(change.agent_probability / change.line_probability) for change in found.changes]
    assert found.agent.rank_correlation == pytest.approx(scipy.stats.spearmanr(odds, gains)[0])
    # The random moves are all there are: fewer than are drawn.
    others = [(k, m) for k in range(len(trace)) for m in range(3) if trace.legal[k, m] and m != trace.action[k]]
    assert sorted(zip(random.decision.tolist(), random.move.tolist(), strict=True)) == sorted(others)
    every = [(judge.seconds(alone) - judge.seconds(replay(*other))) * 1e6 for other in others]
    assert found.random.moves == found.alternatives == len(others)
    assert found.random.helps == sum(gain > 1e-5 for gain in every)
    if workload == WORKLOAD:
        assert found.random.helps > 0  # greedy is better there than XLA: something must help
    # All at once: the preferences of all changes, from the beginning.
    preferences = line.preferences.copy()
    for change in found.changes:
        game = played.game_after(line.actions[: change.decision].tolist())
        preferences[game.access] = preference_for(game.tables, game.state, MOVE_NAMES.index(change.agent_move))
    game = played.new_game()
    while not game.done:
        game.step(nearest_move(game, preferences))
    assert found.together_us == pytest.approx(game.latency_s * 1e6)


def test_an_agent_that_does_as_xla_does_changes_nothing() -> None:
    played, line, trace = line_of_production("tiny")
    probability = np.where(trace.legal, 0.1, 0.0)
    probability[np.arange(len(trace)), trace.action] = 0.8
    found, _, _ = find_changes(
        played, line, trace, preferred=trace.action, probability=probability, production_s=1.0, seed=0
    )
    assert found.changes == []
    assert (found.agent.moves, found.agent.helps_share, found.agent.rank_correlation) == (0, None, None)
    assert found.together_us == found.helping_together_us == found.line_us == pytest.approx(trace.latency_s * 1e6)


def test_the_search_is_asked_position_by_position() -> None:
    _, _, trace = line_of_production(WORKLOAD)
    assert len(trace) > 64  # more than one batch
    own = agent(ActorConfig())
    moves, weights = search_moves(NETWORK, own.params, trace.observation, trace.legal, own.searching(4), 0)
    some = slice(60, 68)
    again = search_moves(NETWORK, own.params, trace.observation[some], trace.legal[some], own.searching(4), 0)
    assert again[0].tolist() == moves[some].tolist()
    assert again[1] == pytest.approx(weights[some], abs=1e-3)
    assert weights.sum(-1) == pytest.approx(np.ones(len(trace)), abs=1e-5)
    assert trace.legal[np.arange(len(trace)), moves].all()
    assert not weights[~trace.legal].any()
