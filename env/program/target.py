"""Defines `Target`, the hardware that a program is mapped for, and the TPU generations known."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from ..errors import UserError
from ..suggestion import unknown

if TYPE_CHECKING:  # `status` looks at a run without NumPy
    import numpy as np
    from numpy.typing import NDArray

Bytes = TypeVar("Bytes", int, "NDArray[np.int64]")

# Prefetches above the limit that may be in flight for loops (XLA: `while_use_extra_outstanding_prefetch_limit`).
MORE_FOR_LOOPS = 4


@dataclass(frozen=True)
class Target:
    """One accelerator generation, as the compiler's memory space assignment sees it.

    Attributes:
      name: generation, e.g. `v5e`.
      fast_bytes: bytes of fast memory the assignment may use (XLA: `max_size_in_bytes`).
      alignment: offsets are multiples of this many bytes.
      hbm_bandwidth: bytes per second between HBM and the compute units, or HBM and fast memory.
      fast_bandwidth: bytes per second between fast memory and the compute units.
      max_prefetches: most prefetches in flight at once, apart from `MORE_FOR_LOOPS`.
      max_write_backs: most write-backs in flight at once.
      clock_hz: clock of the code generator's cycle estimates; 0 where it is not known.
    """

    name: str
    fast_bytes: int
    alignment: int
    hbm_bandwidth: float
    fast_bandwidth: float
    max_prefetches: int
    max_write_backs: int
    clock_hz: float = 0.0

    def align(self, size: Bytes) -> Bytes:
        """Returns a size, or sizes, rounded up to the alignment."""
        return -(-size // self.alignment) * self.alignment


# Production values read from the compiler's log (libtpu 0.0.51). Bandwidths are quotients of its cost lines, to
# five digits (docs/physics-of-extraction.md). Clocks: the published peak (bf16 operations per second and core) over the
# operations per cycle that the code generator reaches on large matrix products (2^17 on v4 and v5e, 2^18 on v5p with
# its two cores in one, 2^19 on v6e), which on v4 and v5e is the published clock. The log has it too: an instruction
# that does nothing costs one cycle (5.71429e-10 s on v6e); the clock of tpu7x comes from there (5.26316e-10 s).
_GENERATIONS = (
    Target("v4", 67_108_864, 4096, 4.9124e11, 2.9474e12, 40, 40, 1.05e9),
    Target("v5e", 117_440_512, 4096, 7.3766e11, 1.6597e13, 40, 40, 1.5e9),
    Target("v5p", 50_266_112, 4096, 2.3504e12, 1.8098e13, 40, 40, 1.75e9),
    Target("v6e", 100_597_760, 4096, 1.6380e12, 2.1294e13, 40, 40, 1.75e9),
    Target("tpu7x", 67_043_328, 4096, 3.6860e12, 1.1795e13, 40, 40, 1.9e9),
)
GENERATIONS: dict[str, Target] = {target.name: target for target in _GENERATIONS}

# The topology given to the ahead-of-time compiler; of larger ones, one device is used.
TOPOLOGIES: dict[str, str] = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:1x1",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:1x1",
    "tpu7x": "tpu7x:2x2x1",
}


def find_target(name: str) -> tuple[Target, str]:
    """Returns the generation and the topology of a target.

    Args:
      name: a generation, e.g. `v5e`, or a topology of one that the compiler knows, e.g. `v5e:2x2`.

    Raises:
      UserError: no generation has this name.
    """
    generation, _, shape = name.partition(":")
    if generation not in GENERATIONS or (":" in name and not shape):
        raise UserError(f"{unknown('target', name, TOPOLOGIES)}; a topology of one is one too, e.g. v5e:2x2")
    return GENERATIONS[generation], name if shape else TOPOLOGIES[generation]
