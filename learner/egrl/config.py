"""Settings of the gradient half. No JAX here, so that solvers can be listed without loading it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphNetworkConfig:
    """Sizes of policy and critic.

    Attributes:
      features: numbers that describe a node.
      homes: `H`.
      width: of every layer.
      depth: how often the U-Net halves the graph.
    """

    features: int
    homes: int = 3
    width: int = 32
    depth: int = 3


@dataclass(frozen=True)
class SacConfig:
    """Hyper-parameters.

    Attributes:
      actor_rate, critic_rate: learning rates of Adam.
      entropy: what a nat of the mean entropy of a node counts, in units of reward.
      batch: mappings per update.
      clip_norm: gradients are cut to this norm.
    """

    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    entropy: float = 0.3
    batch: int = 24
    clip_norm: float = 1.0
