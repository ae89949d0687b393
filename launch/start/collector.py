"""Python's garbage collector, in processes that run this package alone."""

import gc

# New objects that start a collection, and collections after which the older objects are scanned too.
_YOUNG, _OLDER, _OLDEST = 50_000, 20, 10


def collect_seldom() -> None:
    """Makes this process collect garbage less often.

    By default Python collects after every 700 new objects, and scans the survivors again and again. Loading libraries
    and tracing in JAX make objects by the hundred thousand, and nearly all of them stay: collections take a tenth to a
    third of the processor time of both.
    """
    gc.set_threshold(_YOUNG, _OLDER, _OLDEST)
