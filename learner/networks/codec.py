"""The codec of the value and reward heads: scalars as categorical distributions over bins.

Regression by classification (MuZero, arXiv 1911.08265, appendix F; HL-Gauss, arXiv 2403.03950) bounds gradients when
returns are heavy-tailed. The support is uniform in a transformed scalar, so bins are narrow near zero and wide far out.
"""

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from numpy.typing import NDArray

from ...env.errors import UserError

SYMLOG = "symlog"
SQUARE_ROOT = "square_root"
HL_GAUSS = "hl_gauss"
TWO_HOT = "two_hot"

_SIGMA_IN_BINS = 0.75  # HL-Gauss, arXiv 2403.03950, section 4.1
_MARGIN_BINS = 3  # for the tail of the Gaussian beyond `limit`, so that the limit itself decodes without bias
_SQUARE_ROOT_SLOPE = 1e-3  # the epsilon of MuZero's transform, keeps it invertible far out


@dataclass(frozen=True)
class ScalarCodec:
    """Encodes scalars in `[-limit, limit]` as distributions over `bins` classes, and decodes logits.

    Attributes:
      limit: largest magnitude; scalars beyond it are clipped.
      scale: magnitude below which the transform is nearly linear; bins are about `scale` times narrower at zero than
        at one. Choose it near the magnitude of differences that matter.
      bins: number of classes, odd, so that zero is the centre of one and uniform logits decode to zero.
      transform: `symlog`: `sign(x) log(1 + |x| / scale)` (arXiv 2301.04104), or `square_root`: MuZero's
        `sign(x) (sqrt(|x| / scale + 1) - 1) + 0.001 x / scale` (arXiv 1805.11593).
      method: `hl_gauss`, a Gaussian of 0.75 bin widths, or `two_hot`, linear interpolation between two bins.

    A distribution decodes to the inverse transform of its mean in the transformed scalar. A wide, skewed distribution
    thus decodes nearer to zero than its mean: harmless for a deterministic game, and robust to mass in far bins.
    """

    limit: float = 20.0
    scale: float = 0.3
    bins: int = 101
    transform: str = SYMLOG
    method: str = HL_GAUSS

    def __post_init__(self) -> None:
        if not (np.isfinite(self.limit) and self.limit > 0):
            raise UserError(f"codec: limit must be positive and finite, not {self.limit}")
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise UserError(f"codec: scale must be positive and finite, not {self.scale}")
        if self.bins % 2 == 0 or self.bins < 9:
            raise UserError(f"codec: bins must be odd and at least 9, not {self.bins}")
        if self.transform not in (SYMLOG, SQUARE_ROOT):
            raise UserError(f"codec: transform must be {SYMLOG} or {SQUARE_ROOT}, not {self.transform!r}")
        if self.method not in (HL_GAUSS, TWO_HOT):
            raise UserError(f"codec: method must be {HL_GAUSS} or {TWO_HOT}, not {self.method!r}")

    def encode(self, scalar: ArrayLike) -> jax.Array:
        """Returns probabilities `[..., bins]` for scalars `[...]`. Clips at `limit`; a NaN gives NaNs."""
        scalar = jnp.clip(jnp.asarray(scalar, jnp.float32), -self.limit, self.limit)
        position = self._forward(scalar)[..., None] / self._bin_width  # in bin widths from zero
        centres = self._centres
        if self.method == TWO_HOT:
            return jnp.maximum(0.0, 1.0 - jnp.abs(position - centres))
        edges = np.append(centres - 0.5, centres[-1] + 0.5)
        cumulative = jax.scipy.special.erf((edges - position) / (np.sqrt(2.0) * _SIGMA_IN_BINS))
        mass = jnp.maximum(0.0, jnp.diff(cumulative, axis=-1))  # float32 erf is not quite monotone near +-1
        return mass / jnp.sum(mass, axis=-1, keepdims=True)

    def decode(self, logits: jax.Array) -> jax.Array:
        """Returns the scalars `[...]` of logits `[..., bins]`."""
        return self.decode_probabilities(jax.nn.softmax(logits, axis=-1))

    def decode_probabilities(self, probabilities: jax.Array) -> jax.Array:
        """Returns the scalars `[...]` of probabilities `[..., bins]`."""
        return self._inverse(jnp.sum(probabilities * (self._centres * self._bin_width), axis=-1))

    @cached_property
    def _centres(self) -> NDArray[np.float32]:
        """`[bins]` bin centres in bin widths."""
        half = self.bins // 2
        return np.arange(-half, half + 1).astype(np.float32)

    @cached_property
    def _bin_width(self) -> float:
        """Width of a bin in the transformed scalar."""
        margin = _MARGIN_BINS if self.method == HL_GAUSS else 0
        scaled = self.limit / self.scale
        end = np.log1p(scaled) if self.transform == SYMLOG else np.sqrt(scaled + 1) - 1 + _SQUARE_ROOT_SLOPE * scaled
        return float(end / (self.bins // 2 - margin))

    def _forward(self, scalar: jax.Array) -> jax.Array:
        magnitude = jnp.abs(scalar) / self.scale
        if self.transform == SYMLOG:
            return jnp.sign(scalar) * jnp.log1p(magnitude)
        # x / (sqrt(x + 1) + 1) is sqrt(x + 1) - 1 without cancellation near zero.
        root = magnitude / (jnp.sqrt(magnitude + 1) + 1)
        return jnp.sign(scalar) * (root + _SQUARE_ROOT_SLOPE * magnitude)

    def _inverse(self, transformed: jax.Array) -> jax.Array:
        if self.transform == SYMLOG:
            # Two branches instead of sign(y) * expm1(|y|), whose gradient at zero is zero.
            return self.scale * jnp.where(transformed >= 0, jnp.expm1(transformed), -jnp.expm1(-transformed))
        # With u = sqrt(|x| + 1) - 1 the transform is e u^2 + (1 + 2 e) u; this root has no cancellation near zero.
        linear, quadratic = 1 + 2 * _SQUARE_ROOT_SLOPE, _SQUARE_ROOT_SLOPE
        magnitude = jnp.where(transformed >= 0, transformed, -transformed)
        root = 2 * transformed / (linear + jnp.sqrt(linear**2 + 4 * quadratic * magnitude))
        return self.scale * root * (jnp.where(root >= 0, root, -root) + 2)
