"""Generated models: a small grammar of layers from which a seed draws a network, its sizes and its step.

`seed_17` of this package, like the functions of the other models, takes no argument and returns the function to compile
and its abstract arguments. `drawing` says without jax what a seed stands for; `build` makes it of `layers`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from .build import described
from .drawing import draw

PREFIX = "seed_"


def __getattr__(name: str) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Returns the function of a seed."""
    if name.startswith(PREFIX) and name[len(PREFIX) :].isdigit():
        return partial(described, draw(int(name[len(PREFIX) :])))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
