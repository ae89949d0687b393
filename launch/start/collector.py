"""Python's garbage collector, in the processes that are ours alone."""

import gc

# Objects made since the last look before the next one, and looks before the older objects are looked at too.
_YOUNG, _OLDER, _OLDEST = 50_000, 20, 10


def collect_seldom() -> None:
    """Makes this process look for garbage seldom.

    By default Python looks at every 700 new objects, and again and again at those that stay. Libraries that load, and
    JAX as it traces, make objects by the hundred thousand, and nearly all of them stay: of the processor time that both
    take, the looks are a tenth to a third.
    """
    gc.set_threshold(_YOUNG, _OLDER, _OLDEST)
