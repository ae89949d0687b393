"""The soft actor-critic and its graph networks, which see the graph and nothing of its padding."""

import jax
import jax.numpy as jnp
import numpy as np

from mallocmuzero.learner.egrl.config import GraphNetworkConfig, SacConfig
from mallocmuzero.learner.egrl.networks import GraphNetwork
from mallocmuzero.learner.egrl.sac import Played, init_sac, make_update
from mallocmuzero.learner.egrl.unet import make_graph, padded_size

FEATURES, HOMES = 4, 3
NETWORK = GraphNetwork(GraphNetworkConfig(FEATURES, HOMES, width=8, depth=2))
CHANCE = np.random.default_rng(0)


def chain(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and edges of nodes in a row."""
    edges = np.eye(nodes, k=1, dtype=bool) | np.eye(nodes, k=-1, dtype=bool)
    return np.random.default_rng(nodes).standard_normal((nodes, FEATURES)).astype(np.float32), edges


def test_sizes_are_padded_in_few_steps() -> None:
    sizes = [padded_size(nodes) for nodes in range(1, 3000)]
    assert all(nodes <= size <= max(16, 1.25 * nodes) for nodes, size in enumerate(sizes, 1))
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 32


def test_the_reach_of_a_node_doubles_with_every_level() -> None:
    features, edges = chain(12)
    graph = make_graph(features, edges, 3)
    apart = np.abs(np.arange(12)[:, None] - np.arange(12)[None, :])
    for level, hops in enumerate((1, 2, 4, 8)):
        np.testing.assert_array_equal(np.asarray(graph.reach[level])[:12, :12] > 0, apart <= hops)
        assert not np.asarray(graph.reach[level])[:12, 12:].any()
    assert np.asarray(graph.real).tolist() == [1.0] * 12 + [0.0] * 4


def test_padding_changes_nothing() -> None:
    features, edges = chain(16)  # fills the smallest size
    few = make_graph(features[:9], edges[:9, :9], 2)
    changed = few._replace(features=few.features.at[9:].set(5.0))
    row = NETWORK.homes.init(1, 1)[0]
    np.testing.assert_allclose(NETWORK.homes(row, few)[:9], NETWORK.homes(row, changed)[:9], rtol=1e-5, atol=1e-6)
    config, homes = SacConfig(), CHANCE.integers(HOMES, size=(24, 16))
    other = homes.copy()
    other[:, 9:] = 0
    ends = []
    for graph, played in ((few, homes), (changed, other), (few, np.roll(homes, 1, axis=1))):
        state, _ = make_update(NETWORK, config)(
            init_sac(NETWORK, config, 0), graph, Played(jnp.asarray(played), jnp.arange(24.0))
        )
        ends.append(np.asarray(state.critics))
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    assert np.abs(ends[0] - ends[2]).max() > 1e-4


def test_the_policy_sees_the_edges() -> None:
    features, edges = chain(16)
    row = NETWORK.homes.init(1, 1)[0]
    with_edges = NETWORK.homes(row, make_graph(features, edges, 2))
    without = NETWORK.homes(row, make_graph(features, np.zeros_like(edges), 2))
    assert float(jnp.abs(with_edges - without).max()) > 1e-3


def test_posteriors_are_those_of_each_row() -> None:
    graph = make_graph(*chain(16), 2)
    rows = NETWORK.homes.init(3, 3)
    found = np.asarray(NETWORK.posteriors(rows, graph))
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(found[2], jax.nn.softmax(NETWORK.homes(rows[2], graph)), rtol=1e-4, atol=1e-6)
    assert np.abs(found[0] - found[1]).max() > 1e-3


def test_soft_actor_critic_learns_a_bandit() -> None:
    # Every node has a best home of its own; a mapping's reward is the share that have theirs.
    nodes, config = 12, SacConfig(actor_rate=3e-3, critic_rate=3e-3, entropy=0.3)
    features, edges = chain(nodes)
    best = np.arange(nodes) % HOMES
    features[:, :HOMES] = np.eye(HOMES)[best]  # what a node is shows in its features
    graph = make_graph(features, edges, 2)
    state, update = init_sac(NETWORK, config, 0), make_update(NETWORK, config)
    chance = np.random.default_rng(1)

    def chances() -> np.ndarray:
        return np.asarray(NETWORK.posteriors(np.asarray(state.actor)[None], graph))[0, :nodes]

    before = chances()[np.arange(nodes), best].mean()
    losses = []
    for _ in range(400):
        homes = chance.integers(HOMES, size=(config.batch, len(graph.real)))
        reward = (homes[:, :nodes] == best).mean(1).astype(np.float32) * 5.0
        state, metrics = update(state, graph, Played(jnp.asarray(homes), jnp.asarray(reward)))
        losses.append(float(metrics["critic_loss"]))
    assert before < 0.5
    assert chances()[np.arange(nodes), best].mean() > 0.85
    assert np.mean(losses[-50:]) < 0.3 * np.mean(losses[:20])
    # With nothing to win but entropy the policy goes back towards even.
    even = SacConfig(actor_rate=3e-3, entropy=5.0)
    update = make_update(NETWORK, even)
    for _ in range(300):
        homes = chance.integers(HOMES, size=(even.batch, len(graph.real)))
        state, metrics = update(state, graph, Played(jnp.asarray(homes), jnp.zeros(even.batch)))
    assert float(metrics["entropy"]) > 0.95 * np.log(HOMES)


def test_updates_repeat() -> None:
    config, graph = SacConfig(actor_rate=3e-3, critic_rate=3e-3, entropy=0.3), make_graph(*chain(12), 2)
    homes = jnp.asarray(np.random.default_rng(2).integers(HOMES, size=(config.batch, 16)))
    ends = []
    for seed in (5, 5, 6):
        state = init_sac(NETWORK, config, seed)
        for _ in range(3):
            state, _ = make_update(NETWORK, config)(state, graph, Played(homes, jnp.ones(config.batch)))
        ends.append(np.asarray(state.actor))
    np.testing.assert_array_equal(ends[0], ends[1])
    assert np.abs(ends[0] - ends[2]).max() > 1e-3
