"""Times a function with compiler options and without, on the devices of this machine.

Runs stand-alone, as a file, in an interpreter with jax:

    python timer.py PKG.MODULE:FUNCTION ROUNDS

FUNCTION is what the capture takes (`worker.py`), and is given the devices of this machine if it takes devices.
Standard input is one JSON object: `default` and `options`, the options of the two compilations. Abstract arguments get
values: numbers drawn at random, and zeros where they are integers. A round times a batch of calls of each, one after
the other; which comes first alternates. One line `capture-done: {...}` on standard output gives `device`, `platform`,
`jax`, `calls` in a batch, `same` (whether the results are equal bit for bit), `default_s` and `options_s`, seconds a
call by round. A failure that the user can mend is one line `capture-error: ...` and exit status 3.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import worker

# A batch takes about this long, so that the time to start it does not count, and has at most this many calls.
_BATCH_S, _MOST_CALLS = 0.05, 200
# Copies of arguments that calls use up, all of a batch together.
_COPIED_BYTES = 2**30


def values(leaf: Any) -> Any:
    """Returns an argument with values, on the devices that it names."""
    import jax
    import jax.numpy as jnp

    if not isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf

    def made() -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jax.random.split(jax.random.key(0), leaf.shape)
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            return jax.random.normal(jax.random.key(0), leaf.shape, jnp.float32).astype(leaf.dtype)
        return jnp.zeros(leaf.shape, leaf.dtype)

    # Each device makes its own part: the whole may not fit on one.
    return made() if leaf.sharding is None else jax.jit(made, out_shardings=leaf.sharding)()


class Compiled:
    """A compiled function with its arguments, of which it may use up some."""

    def __init__(self, lowered: Any, options: dict[str, str], arguments: Any) -> None:
        """Compiles; ends the process if the compiler refuses."""
        import jax

        try:
            self._call: Callable[..., Any] = lowered.compile(compiler_options=options)
        except Exception as error:  # noqa: BLE001 -- the compiler raises several kinds
            platform = jax.devices()[0].platform
            worker.fail(f"the compiler of this {platform} refused: {error}; options are for the TPU they were made for")
        self._arguments = arguments
        positional, keywords = self._copies(1)[0]
        # A digest, since two results of a large model may not fit.
        self.digest = [digest(leaf) for leaf in jax.tree.leaves(self._call(*positional, **keywords))]
        self.uses_up = any(leaf.is_deleted() for leaf in jax.tree.leaves((positional, keywords)))

    def _copies(self, count: int) -> list[Any]:
        import jax

        arrays = [jax.tree.map(lambda leaf: leaf.copy(), self._arguments) for _ in range(count)]
        return list(jax.block_until_ready(arrays))

    def seconds(self, calls: int) -> float:
        """Returns the seconds of a call, the mean over `calls` of them one after the other."""
        import jax

        arguments = self._copies(calls) if self.uses_up else [self._arguments] * calls
        begin = time.perf_counter()
        for positional, keywords in arguments:
            result = self._call(*positional, **keywords)
        jax.block_until_ready(result)
        return (time.perf_counter() - begin) / calls


def digest(leaf: Any) -> int:
    """Returns a number by which arrays with different bits differ: the sum of their words, each times its own odd
    number."""
    import jax
    import jax.numpy as jnp

    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
        leaf = jnp.stack([leaf.real, leaf.imag])
    whole = jnp.issubdtype(leaf.dtype, jnp.integer)
    if leaf.dtype == bool or (whole and jnp.iinfo(leaf.dtype).bits < 8):
        leaf = leaf.astype(jnp.uint8)
    bits = jax.lax.bitcast_convert_type(leaf, jnp.dtype(f"uint{min(32, 8 * leaf.dtype.itemsize)}"))
    numbers = bits.astype(jnp.uint32).reshape(-1)
    odd = 2 * jax.lax.iota(jnp.uint32, numbers.size) + 1
    return int(jnp.sum(numbers * odd, dtype=jnp.uint32))


def main(reference: str, rounds: str) -> None:
    """Compiles twice, times by turns, and prints the times."""
    import jax
    import numpy as np

    told_options = json.load(sys.stdin)  # before the user's module, which may read it too
    devices = jax.devices()
    function, arguments, keywords = worker.describe(reference, np.array(devices))
    static = [type(leaf).__name__ for leaf in jax.tree.leaves((arguments, keywords)) if not hasattr(leaf, "shape")]
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    if static:
        worker.fail(
            f"{reference}() returned arguments that are no arrays ({static[0]}); give arrays, or bind the others"
        )
    given = jax.tree.map(lambda leaf: jax.numpy.asarray(values(leaf)), (arguments, keywords))
    lowered = jitted.lower(*given[0], **given[1])
    both = [Compiled(lowered, told_options[name], given) for name in ("default", "options")]
    once = [compiled.seconds(1) for compiled in both]
    calls = min(_MOST_CALLS, math.ceil(_BATCH_S / max(min(once), 1e-6)))
    if any(compiled.uses_up for compiled in both):
        calls = max(1, min(calls, _COPIED_BYTES // max(1, sum(leaf.nbytes for leaf in jax.tree.leaves(given)))))
    seconds: list[list[float]] = [[], []]
    for number in range(int(rounds)):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            seconds[which].append(both[which].seconds(calls))
    told = {
        "device": devices[0].device_kind,
        "platform": devices[0].platform,
        "jax": jax.__version__,
        "calls": calls,
        "same": both[0].digest == both[1].digest,
        "default_s": seconds[0],
        "options_s": seconds[1],
    }
    print(f"\n{worker.DONE}{json.dumps(told)}", flush=True)


if __name__ == "__main__":
    # Modules of this folder must not take the place of the user's.
    sys.path[0] = os.getcwd()
    del sys.modules["worker"]
    main(*sys.argv[1:])
