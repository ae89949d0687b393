"""Graph networks: the models of `jraph`."""

from typing import Any

from .common import Described, array, half, squared_error, training_step


def graph_network_train() -> Described:
    """Training step of a mesh simulator: three message-passing steps on 8192 nodes and 32768 edges, width 128.

    After Pfaff et al., "Learning Mesh-Based Simulation with Graph Networks", 2020, with `jraph.GraphNetwork`.
    """
    model, params, given = _mesh(8192, 32768, 128, 3)

    def loss(params: Any, *given: Any) -> Any:
        *graph, wanted = given
        return squared_error(model.apply(params, *graph), wanted)

    return training_step(loss, params, *given, array((8192, 3)))


def graph_network() -> Described:
    """Inference: six message-passing steps on 16384 nodes and 65536 edges, width 128."""
    model, params, given = _mesh(16384, 65536, 128, 6)
    return model.apply, (params, *given)


def _mesh(nodes: int, edges: int, width: int, steps: int) -> tuple[Any, Any, tuple[Any, ...]]:
    import haiku as hk
    import jax
    import jraph

    def perceptron(x: Any, last: int = width) -> Any:
        return hk.LayerNorm(-1, True, True)(hk.nets.MLP([width, width, last])(x))

    def forward(nodes: Any, edges: Any, senders: Any, receivers: Any) -> Any:
        graph = jraph.GraphsTuple(
            nodes=perceptron(nodes),
            edges=perceptron(edges),
            senders=senders,
            receivers=receivers,
            globals=None,
            n_node=jax.numpy.array([nodes.shape[0]]),
            n_edge=jax.numpy.array([edges.shape[0]]),
        )
        for _ in range(steps):
            step = jraph.InteractionNetwork(
                update_edge_fn=jraph.concatenated_args(perceptron),
                update_node_fn=jraph.concatenated_args(perceptron),
                include_sent_messages_in_node_update=False,
            )
            sent = step(graph)
            graph = graph._replace(nodes=graph.nodes + sent.nodes, edges=graph.edges + sent.edges)
        return hk.nets.MLP([width, width, 3])(graph.nodes)

    model = hk.without_apply_rng(hk.transform(forward))
    index = array((edges,), "int32")
    given = array((nodes, 12)), array((edges, 7)), index, index
    return model, half(jax.eval_shape(model.init, jax.random.PRNGKey(0), *given)), given
