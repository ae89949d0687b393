"""Defines `Architecture`, what a seed of the generated models stands for, and kinds of networks. Runs without jax."""

from dataclasses import dataclass, field
from typing import Any

# Kind of network: how often it is drawn.
KINDS = {
    "plain": 5,
    "residual": 9,
    "inverted": 7,
    "ushape": 8,
    "autoencoder": 5,
    "hybrid": 6,
    "encoder": 8,
    "decoder": 9,
    "cached": 5,
    "crossed": 8,
    "experts": 7,
    "recurrent": 5,
    "linear": 6,
    "interaction": 5,
    "graph": 6,
    "wired": 9,
    "towers": 4,
}
IMAGES = ("plain", "residual", "inverted", "ushape", "autoencoder", "hybrid")


@dataclass(frozen=True)
class Architecture:
    """A network and what is done with it.

    Attributes:
      seed: of the draw.
      target: hardware generation.
      kind: a key of `KINDS`.
      step: `inference`, `gradient` (loss and gradients) or `training` (a step of `optimiser`).
      optimiser: `sgd`, `momentum`, `adam` or `sign`; empty without training.
      dtype: `bfloat16`, `float32`, or `mixed` for 32-bit parameters and bfloat16 computation.
      batch: samples.
      length: tokens of a sequence, side of an image, or nodes of a graph.
      width: features of the narrowest layer between layers.
      depth: number of layers, by the kind's own count.
      pressure: the wanted live bytes over the bytes of fast memory.
      rematerialised: layers are computed again for their gradients.
      loop: `layers` or `batches` for a loop over layers or parts of the batch; empty for none.
      options: the kind's own choices.
    """

    seed: int
    target: str
    kind: str
    step: str
    optimiser: str
    dtype: str
    batch: int
    length: int
    width: int
    depth: int
    pressure: float
    rematerialised: bool
    loop: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def loops(self) -> bool:
        """Whether the program may have a loop; XLA unrolls some."""
        return bool(self.loop) or (self.kind == "recurrent" and not self.options["unrolled"])

    @property
    def description(self) -> str:
        """One line for people."""
        step = f"{self.step} with {self.optimiser}" if self.optimiser else self.step
        extras = [
            name
            for name, there in (("rematerialised", self.rematerialised), (f"loop over {self.loop}", self.loop))
            if there
        ]
        return ", ".join(
            [
                f"{self.kind} network",
                f"{step}",
                f"depth {self.depth}",
                f"width {self.width}",
                f"batch {self.batch}",
                f"length {self.length}",
                self.dtype,
                *extras,
            ]
        )
