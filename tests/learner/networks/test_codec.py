"""The scalar codec: what goes in comes out, to the precision the game needs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.learner.networks.codec import HL_GAUSS, SQUARE_ROOT, SYMLOG, TWO_HOT, ScalarCodec

CODECS = [
    ScalarCodec(limit=limit, scale=scale, transform=transform, method=method)
    for limit, scale in ((20.0, 0.3), (5.0, 0.01))
    for transform in (SYMLOG, SQUARE_ROOT)
    for method in (HL_GAUSS, TWO_HOT)
]
every_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda c: f"{c.limit:g}-{c.transform}-{c.method}")


@every_codec
def test_round_trip(codec: ScalarCodec) -> None:
    scalars = np.concatenate([np.linspace(-codec.limit, codec.limit, 401), [-1e-3, 1e-3, 3e-4, 0.0, 0.5, -0.5]])
    probabilities = codec.encode(scalars)
    np.testing.assert_allclose(probabilities.sum(-1), 1.0, rtol=1e-5)
    assert float(probabilities.min()) >= 0.0
    decoded = codec.decode(jnp.log(jnp.maximum(probabilities, 1e-30)))
    np.testing.assert_allclose(decoded, scalars, rtol=2e-5, atol=1e-5 * codec.scale / 0.01)


@every_codec
def test_differences_of_a_thousandth_near_zero_survive(codec: ScalarCodec) -> None:
    scalars = np.arange(-20, 21) * 1e-3
    decoded = codec.decode_probabilities(codec.encode(scalars))
    np.testing.assert_allclose(np.diff(decoded), 1e-3, rtol=0.1)


@every_codec
def test_strictly_monotone_inside_the_limits(codec: ScalarCodec) -> None:
    scalars = np.linspace(-codec.limit, codec.limit, 2001)
    decoded = np.asarray(codec.decode_probabilities(codec.encode(scalars)))
    assert (np.diff(decoded) > 0).all()


@every_codec
def test_saturates_at_the_ends(codec: ScalarCodec) -> None:
    decoded = codec.decode_probabilities(codec.encode(np.array([-1e6, -2 * codec.limit, 2 * codec.limit, 1e6])))
    np.testing.assert_allclose(decoded, codec.limit * np.array([-1, -1, 1, 1]), rtol=1e-4)


@every_codec
def test_uniform_logits_decode_to_zero(codec: ScalarCodec) -> None:
    assert abs(float(codec.decode(jnp.zeros(codec.bins)))) < 1e-6


@every_codec
def test_gradients_are_finite_and_point_to_the_target(codec: ScalarCodec) -> None:
    def loss(logits: jax.Array, target: jax.Array) -> jax.Array:
        return -jnp.sum(codec.encode(target) * jax.nn.log_softmax(logits))

    for target in (0.0, 1e-3, -codec.limit, 1e9):
        logits = jnp.zeros(codec.bins)
        gradient = jax.grad(loss)(logits, jnp.float32(target))
        assert np.isfinite(gradient).all()
        after = codec.decode(logits - 0.1 * gradient)
        assert np.sign(float(after)) == np.sign(target) or target == 0.0
    decode_gradient = jax.grad(codec.decode)(jnp.zeros(codec.bins))
    assert np.isfinite(decode_gradient).all()
    assert float(decode_gradient[-1]) > 0.0 > float(decode_gradient[0])


def test_hl_gauss_spreads_over_neighbours_and_two_hot_over_two_bins() -> None:
    gauss = ScalarCodec(method=HL_GAUSS).encode(0.0)
    assert int((np.asarray(gauss) > 1e-3).sum()) == 5
    two_hot = ScalarCodec(method=TWO_HOT).encode(0.01)
    assert int((np.asarray(two_hot) > 0).sum()) == 2


@pytest.mark.parametrize(
    ("field", "value"),
    [("limit", 0.0), ("scale", -1.0), ("bins", 100), ("bins", 3), ("transform", "log"), ("method", "one_hot")],
)
def test_a_bad_codec_is_refused(field: str, value: object) -> None:
    with pytest.raises(UserError, match=field):
        ScalarCodec(**{field: value})  # type: ignore[arg-type]
