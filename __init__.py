"""mallocMuZero: learned memory mapping for accelerators, on real TPU programs."""

from .version import VERSION as __version__

__all__ = ["__version__"]
