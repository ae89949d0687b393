"""mallocMuZero makes JAX programs faster on TPUs by deciding which tensors live in fast memory, and when.

A TPU core has a small fast memory beside large, slow HBM. XLA decides with a greedy heuristic which tensor lives where.
Here solvers and a trained agent decide better, and the real compiler confirms the gain. No TPU is needed.

Make compiler options for your own function:

    import jax, jax.numpy as jnp, mallocmuzero

    def step(x, weights):
        for w in weights:
            x = jax.nn.relu(x @ w)
        return x

    arguments = (jax.ShapeDtypeStruct((65536, 256), jnp.bfloat16),
                 [jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)] * 8)
    tuned = mallocmuzero.tune(step, arguments, target="v5e", minutes=5)
    compiled = jax.jit(step).lower(*arguments).compile(compiler_options=tuned.options)  # where the TPU is

Map a benchmark program, check the mapping, and see how much better another one could be:

    solved = mallocmuzero.solve("resnet50-b128", seconds=30)
    mallocmuzero.verify("resnet50-b128", solved.mapping)
    mallocmuzero.bound("resnet50-b128", seconds=60)

| function | does |
|---|---|
| `load` | reads a program: a workload by its name, or a program file |
| `capture` | turns a JAX function into a program, with XLA's own mapping |
| `solve` | maps a program |
| `verify` | checks that a mapping is legal, and prices it |
| `bound` | proves a lower bound on the latency of every mapping |
| `tune` | captures, solves and confirms in one call: compiler options for a JAX function |

Results display as tables: with `print` in a terminal, or as the last line of a notebook cell. Latencies are simulated
microseconds of steady execution under the compiler's two cost models: `msa`, which its memory space assignment
optimises, and `cycles`, its code generator's. The objective `robust` is the worse of the two ratios to XLA's mapping.

Input that cannot be used raises `UserError`, whose message says how to fix it. Training is a command:
`mallocmuzero train`. The game is a Gymnasium environment, `gymnasium.make("mallocmuzero/MallocGame-v0",
program="tiny")`; import gymnasium before this package.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from .version import VERSION as __version__

if TYPE_CHECKING:
    from .env.errors import UserError
    from .env.program.mapping import Mapping
    from .env.program.program import Program
    from .launch.api.bound import Bounded, bound
    from .launch.api.capture import capture
    from .launch.api.load import load
    from .launch.api.solve import Solved, solve
    from .launch.api.tune import Tuned, tune
    from .launch.api.verify import Verified, verify

__all__ = [
    "Bounded",
    "Mapping",
    "Program",
    "Solved",
    "Tuned",
    "UserError",
    "Verified",
    "__version__",
    "bound",
    "capture",
    "load",
    "solve",
    "tune",
    "verify",
]

# The module of each name, imported when the name is first used, so that `import mallocmuzero` loads nothing else.
_MODULES = {
    "Bounded": ".launch.api.bound",
    "Mapping": ".env.program.mapping",
    "Program": ".env.program.program",
    "Solved": ".launch.api.solve",
    "Tuned": ".launch.api.tune",
    "UserError": ".env.errors",
    "Verified": ".launch.api.verify",
    "bound": ".launch.api.bound",
    "capture": ".launch.api.capture",
    "load": ".launch.api.load",
    "solve": ".launch.api.solve",
    "tune": ".launch.api.tune",
    "verify": ".launch.api.verify",
}


if "gymnasium" in sys.modules:
    importlib.import_module(".env.game.registration", __name__)


def __getattr__(name: str) -> Any:
    """Returns a name of the front door, importing its module on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULES[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
