"""Compiles one JAX function for a TPU that is not there and leaves the compiler's dumps in a folder.

Runs as a file in another interpreter, one with jax and libtpu; imports nothing else but the module it is given:

    python worker.py PKG.MODULE:FUNCTION TOPOLOGY FOLDER [OPTION=VALUE ...]

FUNCTION takes no argument and returns `(function, arguments)`: a function that `jax.jit` takes, and its arguments,
which may be abstract (`jax.ShapeDtypeStruct`). Writes `compiled.txt`, `versions.json` and the dumps; the log goes to
standard error. A failure that the user can mend is one line `capture-error: ...` on standard output and exit status 3.
"""

import importlib
import json
import os
import sys
import traceback
from typing import Any, NoReturn

LOG_MODULES = "algorithm=3,memory_space_assignment=3,memory_space_assignment_util=3,simulator=5,op_cost=1"
USER_ERROR = 3
MARK = "capture-error: "


def fail(message: str) -> NoReturn:
    """Ends the process with a line that the parent shows to the user."""
    print(MARK + " ".join(message.split()), flush=True)
    sys.exit(USER_ERROR)


def compiler_settings() -> dict[str, str]:
    """Returns the environment that makes libtpu compile without a TPU and log what capture reads."""
    return {
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_PLATFORMS": "cpu",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_LOG_DIR": "disabled",
        "TPU_STDERR_LOG_LEVEL": "0",
        "TPU_MIN_LOG_LEVEL": "0",
        "TPU_VMODULE": LOG_MODULES,
    }


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def load(reference: str) -> Any:
    """Imports `PKG.MODULE:FUNCTION` and returns the function."""
    module_name, _, function_name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            fail(f"no module {module_name!r} in {os.getcwd()} or in {sys.executable}; give PKG.MODULE:FUNCTION")
        fail(f"module {module_name!r} needs {error.name!r}, which {sys.executable} lacks; install it there")
    except Exception as error:  # noqa: BLE001 -- whatever the user's module raises is the user's to read
        fail(f"importing module {module_name!r} raised {type(error).__name__}: {error}")
    function = getattr(module, function_name, None)
    if not callable(function):
        fail(f"module {module_name!r} has no function {function_name!r}")
    return function


def describe(reference: str) -> tuple[Any, tuple[Any, ...]]:
    """Calls the user's function and returns what to compile and its arguments."""
    try:
        described = load(reference)()
    except Exception as error:  # noqa: BLE001 -- the user's code
        traceback.print_exc()
        fail(f"{reference}() raised {type(error).__name__}: {error}")
    if not (isinstance(described, tuple) and len(described) == 2 and callable(described[0])):
        fail(f"{reference}() returned {type(described).__name__}, not a pair (function, arguments)")
    function, arguments = described
    if not isinstance(arguments, (tuple, list)):
        fail(f"{reference}() returned arguments of type {type(arguments).__name__}, not a tuple")
    return function, tuple(arguments)


def main(reference: str, topology_name: str, folder: str, options: dict[str, str]) -> None:
    """Compiles and leaves the dumps in `folder`."""
    os.environ.update(compiler_settings())
    here = os.path.dirname(os.path.abspath(__file__))  # its modules are none of the user's business
    sys.path[:] = [os.getcwd(), *(entry for entry in sys.path if entry != here)]
    try:
        import jax
        import libtpu
        from jax.experimental import topologies
    except ImportError as error:
        fail(f"{sys.executable} cannot import {error.name}: install jax and libtpu there, or leave out --python")

    function, arguments = describe(reference)
    try:
        topology = topologies.get_topology_desc(platform="tpu", topology_name=topology_name)
    except Exception as error:  # noqa: BLE001 -- jax and libtpu raise what they like here
        fail(f"libtpu {libtpu.__version__} knows no topology {topology_name!r}: {error}")
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])

    def abstract(leaf: Any) -> Any:
        if not hasattr(leaf, "shape"):
            leaf = jax.numpy.asarray(leaf)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    try:
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        lowered = jitted.lower(*jax.tree.map(abstract, arguments))
    except Exception as error:  # noqa: BLE001 -- the user's code runs inside
        traceback.print_exc()
        fail(f"{reference}: tracing raised {_first_line(error)}")
    dumps: dict[str, Any] = {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
    try:
        compiled = lowered.compile(compiler_options={**dumps, **options})
    except Exception as error:  # noqa: BLE001 -- the compiler raises several kinds
        fail(f"{reference}: the TPU compiler refused: {_first_line(error)}")
    with open(os.path.join(folder, "compiled.txt"), "w", encoding="utf-8") as file:
        file.write(compiled.as_text() or "")
    versions = {"jax": jax.__version__, "libtpu": libtpu.__version__, "python": sys.version.split()[0]}
    with open(os.path.join(folder, "versions.json"), "w", encoding="utf-8") as file:
        json.dump(versions, file)


if __name__ == "__main__":
    if len(sys.argv) < 4 or ":" not in sys.argv[1] or not all("=" in option for option in sys.argv[4:]):
        fail("usage: worker.py PKG.MODULE:FUNCTION TOPOLOGY FOLDER [OPTION=VALUE ...]")
    main(sys.argv[1], sys.argv[2], sys.argv[3], dict(option.split("=", 1) for option in sys.argv[4:]))
