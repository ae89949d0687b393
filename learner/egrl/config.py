"""Settings of the gradient half of EGRL, free of JAX."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphNetworkConfig:
    """Sizes of policy and critic.

    Attributes:
      features: `F`, features of a node.
      homes: `H`, homes of a tensor.
      width: `W`, width of every layer.
      depth: `P`, halvings of the graph in the U-Net.
    """

    features: int
    homes: int = 3
    width: int = 32
    depth: int = 3


@dataclass(frozen=True)
class SacConfig:
    """Hyper-parameters of the soft actor-critic.

    Attributes:
      actor_rate, critic_rate: learning rates of Adam.
      entropy: reward of a nat of entropy per node.
      batch: mappings per update.
      clip_norm: largest norm of a gradient.
    """

    actor_rate: float = 1e-3
    critic_rate: float = 1e-3
    entropy: float = 0.3
    batch: int = 24
    clip_norm: float = 1.0
