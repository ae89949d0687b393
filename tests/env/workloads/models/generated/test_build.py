"""Generated models are traced, not compiled: every kind has a result, every step its outputs, every parameter a use."""

import jax
import pytest

from mallocmuzero.env.workloads.models import generated
from mallocmuzero.env.workloads.models.generated.architecture import KINDS
from mallocmuzero.env.workloads.models.generated.build import described
from mallocmuzero.env.workloads.models.generated.drawing import draw

DRAWN = [draw(seed) for seed in range(400)]


def first(**wanted: object) -> int:
    """The first seed of an architecture with these attributes, small ones first."""
    fit = [drawn for drawn in DRAWN if all(getattr(drawn, name) == value for name, value in wanted.items())]
    return min(fit, key=lambda drawn: (drawn.depth, drawn.seed)).seed


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_traced(kind: str) -> None:
    function, arguments = getattr(generated, f"seed_{first(kind=kind, step='inference')}")()
    assert jax.tree.leaves(jax.eval_shape(function, *arguments))


@pytest.mark.parametrize(
    ("kind", "optimiser", "loop"), [("encoder", "adam", "layers"), ("plain", "momentum", ""), ("wired", "sgd", "")]
)
def test_a_training_step_returns_what_it_was_given_and_a_loss(kind: str, optimiser: str, loop: str) -> None:
    matching = [one for one in DRAWN if (one.kind, one.optimiser) == (kind, optimiser) and one.loop in (loop, "")]
    drawn = min(matching, key=lambda one: (one.loop != loop, one.depth, one.seed))
    function, (params, state, *batch) = described(drawn)
    new_params, new_state, loss = jax.eval_shape(function, params, state, *batch)

    def shapes(tree: object) -> list[tuple[int, ...]]:
        return [leaf.shape for leaf in jax.tree.leaves(tree)]

    assert (shapes(new_params), shapes(new_state), loss.shape) == (shapes(params), shapes(state), ())
    assert len(state) == {"adam": 2, "momentum": 1, "sgd": 0}[optimiser]


def test_a_batch_in_parts_gives_as_many_gradients() -> None:
    drawn = draw(first(loop="batches", step="training"))
    function, arguments = described(drawn)
    assert jax.tree.leaves(jax.eval_shape(function, *arguments))


def test_other_names_are_no_seeds() -> None:
    for name in ("seed_", "seed_x", "tiny"):
        with pytest.raises(AttributeError, match=name):
            getattr(generated, name)
