"""mallocMuZero: learned memory mapping for accelerators, on real TPU programs."""

from .env.compiled.cache import keep_compiled_code_by_source
from .version import VERSION as __version__

__all__ = ["__version__"]

keep_compiled_code_by_source()
