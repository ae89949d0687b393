"""Compiles one JAX function for a TPU that need not be there, once per request (pipeline step 1).

Runs stand-alone, as a file, in an interpreter with jax and libtpu, and imports nothing else but the user's module:

    python worker.py PKG.MODULE:FUNCTION TOPOLOGY FOLDER
    python worker.py /PATH/TO/module.stablehlo TOPOLOGY FOLDER

FUNCTION takes no argument and returns `(function, arguments)` or `(function, arguments, keywords)`: a function that
`jax.jit` takes, or the result of `jax.jit`, and a tuple of arguments. Arrays may be abstract (`jax.ShapeDtypeStruct`).
Other values are passed unchanged: numbers then have the weak types that they have in a call, and static arguments keep
their values. The function is compiled for one device. A FUNCTION that takes one argument is given the devices of the
topology, a NumPy array, to make its mesh of; its arguments then have the shardings that it gives them, and what is
compiled is the program of one partition. It is traced once. Instead of a function, the worker reads a module that was
lowered before; one of several partitions names its devices, in their order. FOLDER takes `versions.json`.

Each line of standard input is a request for one compilation, as JSON: `folder` (an existing one), `options`, `dump`
(leave the compiler's dumps), and `through`, the last step:

- `lowering`: compile nothing of the function, and leave the lowered module, `module.stablehlo`, a portable artifact of
  StableHLO, and `refused.json`, the names of the options that this compiler does not take.
- `code`: compile to the end, and leave the module after code generation, `compiled.txt`. It gives the cycles of each
  instruction. Code generation takes most of the time. Where libtpu cannot hand the module over, its dump serves.
- `assignment`: end this process as soon as the dump from after memory space assignment is complete.

The compiler's log goes to `log.txt` in the folder of the request. One line `capture-done: {...}` on standard output
answers a request, with `error` (null, or one line) and `cpu_s`. A failure that the user can mend is one line
`capture-error: ...` and exit status 3. The worker ends with its standard input.
"""

import importlib
import importlib.metadata
import inspect
import io
import json
import os
import resource
import shutil
import sys
import sysconfig
import threading
import time
import traceback
from typing import Any, NoReturn

LOG_MODULES = "algorithm=3,memory_space_assignment=3,memory_space_assignment_util=3,simulator=5,op_cost=1"
USER_ERROR = 3
MARK = "capture-error: "
DONE = "capture-done: "
LOG_FILE = "log.txt"
COMPILED_FILE = "compiled.txt"
VERSIONS_FILE = "versions.json"
MODULE_FILE = "module.stablehlo"
REFUSED_FILE = "refused.json"
# How a file holds a lowered module (`module_reader.py`).
MLIR_TEXT, MLIR_BYTECODE, ARTIFACT, EXPORTED = "MLIR text", "MLIR bytecode", "StableHLO artifact", "jax.export"
# The dump from after code generation, which has the cycles of each instruction.
GENERATED = ".after_codegen.txt"
# The programs of other cores have dumps of their own: a gather on a SparseCore, for one.
OTHER_CORES = ".extracted."
# Attribute of a stored module of several partitions: the numbers of its devices. MLIR wants a dialect before its name.
_DIALECT = "mallocmuzero"
DEVICES = f"{_DIALECT}.devices"
# In the place of their numbers: the order in which `jax.make_mesh` has the devices.
MAKE_MESH = "make_mesh"
# Where true, as in newer versions by default, dumps leave out `get-tuple-element`. Older versions refuse the option.
COMPACT = "xla_dump_compact_gte"
_SHARDINGS = ("sdy.sharding", "mhlo.sharding")
# The compiler's pass that colors kernels (`kernel_colors.py`).
COLORING = "tpu-custom-call-memory-space-policy"
# The dump from after memory space assignment, right before code generation.
ASSIGNED = ".after_optimizations_after_buffer_assignment.txt"


def fail(message: str) -> NoReturn:
    """Ends the process with a line that its parent shows to the user."""
    print(MARK + " ".join(message.split()), flush=True)
    sys.exit(USER_ERROR)


def compiler_settings() -> dict[str, str]:
    """Returns the environment variables that make libtpu compile without a TPU and log what capture reads."""
    return {
        "TPU_SKIP_MDS_QUERY": "1",
        "JAX_PLATFORMS": "cpu",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_LOG_DIR": "disabled",
        "TPU_STDERR_LOG_LEVEL": "0",
        "TPU_MIN_LOG_LEVEL": "0",
        "TPU_VMODULE": LOG_MODULES,
    }


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _told(error: BaseException) -> str:
    """Returns an error of the user's code in one line: file, line and function of the user's, the error, the source."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if _is_users(frame.filename)]
    if not theirs:
        return f"it raised {_first_line(error)}"
    last = theirs[-1]
    inside = last.filename.startswith(os.getcwd() + os.sep)
    path = os.path.relpath(last.filename) if inside else last.filename
    source = f", at `{last.line}`" if last.line else ""
    return f"{path}:{last.lineno}: in {last.name}: {_first_line(error)}{source}"


def _is_users(path: str) -> bool:
    """Returns whether a file is the user's: neither this one, nor of an installed package, nor of Python itself."""
    if path.startswith("<") or os.path.abspath(path) == os.path.abspath(__file__):
        return False
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(path.startswith(folder + os.sep) for folder in folders) and "site-packages" not in path


def load(reference: str) -> Any:
    """Imports `PKG.MODULE:FUNCTION` and returns the function."""
    module_name, _, function_name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            fail(f"no module {module_name!r} in {os.getcwd()} or in {sys.executable}; give PKG.MODULE:FUNCTION")
        fail(f"module {module_name!r} needs {error.name!r}, which {sys.executable} lacks; install it there")
    except Exception as error:  # noqa: BLE001 -- the user's code
        traceback.print_exc()
        fail(f"importing module {module_name!r}: {_told(error)}")
    function = getattr(module, function_name, None)
    if not callable(function):
        fail(f"module {module_name!r} has no function {function_name!r}")
    return function


def takes_devices(function: Any) -> bool:
    """Returns whether the user's function must be given the devices: it has a parameter without a default."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def describe(reference: str, devices: Any = None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Calls the user's function, with the devices if it takes them; returns the function to compile, its arguments, and
    those by keyword."""
    try:
        function = load(reference)
        described = function(devices) if takes_devices(function) else function()
    except Exception as error:  # noqa: BLE001 -- the user's code
        traceback.print_exc()
        fail(f"{reference}(): {_told(error)}")
    if not (isinstance(described, tuple) and len(described) in (2, 3) and callable(described[0])):
        fail(
            f"{reference}() returned {type(described).__name__}, not (function, arguments) or (function, arguments, "
            "keywords)"
        )
    function, arguments, keywords = (*described, {})[:3]
    if not isinstance(arguments, (tuple, list)):
        fail(f"{reference}() returned arguments of type {type(arguments).__name__}, not a tuple")
    if not isinstance(keywords, dict):
        fail(f"{reference}() returned keywords of type {type(keywords).__name__}, not a dict")
    return function, tuple(arguments), keywords


def devices_of(topology_name: str, folder: str) -> Any:
    """Returns the devices of the topology, and writes the versions of jax and libtpu to `folder`."""
    try:
        import jax
        import libtpu
        from jax.experimental import topologies
    except ImportError as error:
        fail(f"{sys.executable} cannot import {error.name}: install jax and libtpu there, or leave out --python")
    # Versions before 0.0.17 do not name themselves.
    libtpu_version = getattr(libtpu, "__version__", None) or importlib.metadata.version("libtpu")
    # The lowered module names no source files of the user.
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        try:
            topology = topologies.get_topology_desc(platform="tpu", topology_name=topology_name)
        except Exception:  # noqa: BLE001 -- as below
            # Some versions of libtpu expect hosts of four chips, unless they are given another shape.
            bounds = host_of(topology_name)
            topology = topologies.get_topology_desc(
                platform="tpu", topology_name=topology_name, chips_per_host_bounds=bounds
            )
    except Exception as error:  # noqa: BLE001 -- jax and libtpu raise several kinds
        fail(f"libtpu {libtpu_version} knows no topology {topology_name!r}: {error}")
    versions = {"jax": jax.__version__, "libtpu": libtpu_version, "python": sys.version.split()[0]}
    with open(os.path.join(folder, VERSIONS_FILE), "w", encoding="utf-8") as file:
        json.dump(versions, file)
    return list(topology.devices)


def host_of(topology_name: str) -> list[int]:
    """Returns the shape of a host that has all chips of a topology, or three ones where its name gives none."""
    shape = [int(size) for size in topology_name.partition(":")[2].split("x") if size.isdecimal()]
    return [*shape, 1, 1, 1][:3]


def lower(reference: str, devices: Any) -> Any:
    """Traces the function for the devices that it takes, or the first; returns the result of `jax.jit(...).lower`."""
    import jax
    import numpy as np

    function, arguments, keywords = describe(reference, np.array(devices))
    alone = jax.sharding.SingleDeviceSharding(devices[0])
    sharded = takes_devices(load(reference))

    def abstract(leaf: Any) -> Any:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        sharding = getattr(leaf, "sharding", None) if sharded else alone
        weak = {"weak_type": True} if getattr(leaf, "weak_type", False) else {}
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding, **weak)

    try:
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        return jitted.lower(*jax.tree.map(abstract, arguments), **jax.tree.map(abstract, keywords))
    except Exception as error:  # noqa: BLE001 -- the user's code runs inside
        traceback.print_exc()
        fail(f"{reference}: tracing it: {_told(error)}")


def device_ids(lowered: Any) -> list[int]:
    """Returns the devices that a function was lowered for, by their numbers, in the order of its partitions."""
    if isinstance(lowered, Stored):
        return [device.id for device in lowered.devices]
    # jax gives the order of a lowered function's devices nowhere else; versions before 0.7 use another name.
    lowering = lowered._lowering
    devices = getattr(lowering, "_device_list", None) or lowering.compile_args["device_assignment"]
    return [device.id for device in devices]


def serialise(lowered: Any) -> bytes:
    """Returns a lowered module as a portable artifact of StableHLO."""
    return portable(lowered.compiler_ir("stablehlo"), device_ids(lowered))


def portable(module: Any, ids: list[int]) -> bytes:
    """Returns a module as a portable artifact of StableHLO, which later versions can read.

    Args:
      module: as MLIR has it; it is not changed.
      ids: numbers of the devices of its partitions, in their order.
    """
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    with module.context:
        copied = io.BytesIO()  # Serialising changes a module, and it is still to be compiled.
        module.operation.write_bytecode(copied)
        module = ir.Module.parse(copied.getvalue())
        if len(ids) > 1:  # The module itself says only how many.
            module.operation.attributes[DEVICES] = ir.DenseI64ArrayAttr.get(ids)
    version = stablehlo.get_current_version()
    try:
        # `True` allows the dialect of shardings, which the artifact holds unchanged.
        return bytes(stablehlo.serialize_portable_artifact(module, version, True))
    except TypeError:  # before jax 0.6, which has no such dialect
        return bytes(stablehlo.serialize_portable_artifact(module, version))


class Stored:
    """A lowered module from a file, with the methods of the result of `jax.jit(...).lower` that are used here.

    Attributes:
      devices: the devices of its partitions, in their order.
    """

    def __init__(self, path: str, devices: list[Any]) -> None:
        """Reads the module; ends the process if this jax cannot read it, or the topology lacks its devices."""
        try:
            from jax.interpreters import mlir

            stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
            with open(path, "rb") as file:
                data = file.read()
            self._context = mlir.make_ir_context()
            self._module = stablehlo.deserialize_portable_artifact(self._context, data)
        except Exception as error:  # noqa: BLE001 -- jaxlib raises several kinds
            fail(f"the module cannot be read by this jax: {_first_line(error)}")
        attributes = self._module.operation.attributes
        by_id = {device.id: device for device in devices}
        ids = list(attributes[DEVICES]) if DEVICES in attributes else [devices[0].id]
        if not set(ids) <= by_id.keys():
            fail(
                f"the module is for {len(ids)} devices, and the target has {len(by_id)}; give one of as many, such as "
                "--target v5e:2x2"
            )
        self.devices = [by_id[number] for number in ids]

    def compiler_ir(self, dialect: str) -> Any:
        """Returns the module; `dialect` is `stablehlo`."""
        return self._module

    def compile(self, compiler_options: dict[str, Any]) -> "Stored":
        """Compiles for its devices, as `jax.jit` does."""
        # jax has no public way to compile a module that it did not lower itself.
        compiler: Any = importlib.import_module("jax._src.compiler")
        xla_client: Any = importlib.import_module("jax._src.lib").xla_client

        client = self.devices[0].client
        options = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=len(self.devices),
            device_assignment=[[device.id for device in self.devices]],
            env_options_overrides=compiler_options,
            backend=client,
        )
        if len(self.devices) > 1:
            # What has no sharding gets one from the partitioner.
            build = options.executable_build_options
            build.allow_spmd_sharding_propagation_to_parameters = self._unsharded("arg_attrs")
            build.allow_spmd_sharding_propagation_to_output = self._unsharded("res_attrs")
        devices = xla_client.DeviceList(tuple(self.devices))
        with self._context:
            if hasattr(compiler, "backend_compile_and_load"):
                self._executable = compiler.backend_compile_and_load(client, self._module, devices, options, [])
            else:  # before jax 0.6
                self._executable = compiler.backend_compile(client, self._module, options, [])
        return self

    def _unsharded(self, attributes: str) -> list[bool]:
        """Returns, by argument or result of the module's `main`, whether it has no sharding."""
        functions = [operation for operation in self._module.body.operations if operation.OPERATION_NAME == "func.func"]
        (main,) = [function for function in functions if function.name.value == "main"]
        kind = main.type
        count = len(kind.inputs if attributes == "arg_attrs" else kind.results)
        if attributes not in main.attributes:
            return [True] * count
        return [not any(name in given for name in _SHARDINGS) for given in main.attributes[attributes]]

    def as_text(self) -> str:
        """Returns the compiled module as text."""
        return "\n\n".join(module.to_string() for module in self._executable.hlo_modules())


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _answer(error: str | None, cpu_s: float) -> None:
    print(f"\n{DONE}{json.dumps({'error': error, 'cpu_s': round(cpu_s, 2)})}", flush=True)


def _stop_once_assigned(folder: str, started_s: float) -> None:
    """Ends the process, from another thread, when the dump from after memory space assignment is complete."""
    while True:
        time.sleep(0.05)
        for name in os.listdir(folder):
            if not name.endswith(ASSIGNED) or OTHER_CORES in name:
                continue
            with open(os.path.join(folder, name), "rb") as file:
                text = file.read()
            # The entry computation comes last; a dump that is being written may end with another's.
            if text.rstrip(b"\n").endswith(b"\n}") and b"\n}" in text.partition(b"\nENTRY ")[2]:
                _answer(None, _cpu_s() - started_s)
                os._exit(0)


def refused(options: dict[str, Any], device: Any) -> list[str]:
    """Returns the names of those options with which no function compiles."""
    import jax

    place = jax.sharding.SingleDeviceSharding(device)
    tiny = jax.jit(lambda x: x + 1).lower(jax.ShapeDtypeStruct((), "float32", sharding=place))

    def takes(some: dict[str, Any]) -> bool:
        try:
            tiny.compile(compiler_options=some)
        except Exception:  # noqa: BLE001 -- the compiler raises several kinds
            return False
        return True

    return [] if takes(options) else [name for name, value in options.items() if not takes({name: value})]


def leave_module(lowered: Any, options: dict[str, Any], device: Any, folder: str) -> None:
    """Writes the lowered module and the refused options, and answers the request."""
    started_s, error = _cpu_s(), None
    with open(os.path.join(folder, REFUSED_FILE), "w", encoding="utf-8") as names:
        json.dump(refused(options, device), names)
    try:
        data = serialise(lowered)
        with open(os.path.join(folder, MODULE_FILE), "wb") as file:
            file.write(data)
    except Exception as raised:  # noqa: BLE001 -- jaxlib raises several kinds
        error = f"the lowered module cannot be kept: {_first_line(raised)}"
    _answer(error, _cpu_s() - started_s)


def take_generated(folder: str) -> bool:
    """Takes the compiler's dump from after code generation for the compiled module; returns whether there is one.

    libtpu 0.0.51 compiles programs whose gathers run on a SparseCore to the end, and then fails to hand the module
    over: `async-update instruction should have 1 operands but sees 3`.
    """
    for name in sorted(os.listdir(folder)):
        if name.endswith(GENERATED) and OTHER_CORES not in name:
            os.rename(os.path.join(folder, name), os.path.join(folder, COMPILED_FILE))
            return True
    return False


def remove_others(folder: str, kept: set[str]) -> None:
    """Removes everything in a folder but the files and folders `kept`."""
    for name in set(os.listdir(folder)) - kept:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def compiled(lowered: Any, options: dict[str, Any]) -> Any:
    """Returns the compiled function; its dumps have every instruction on a line of its own, in old versions and new."""
    try:
        return lowered.compile(compiler_options={**options, COMPACT: False})
    except Exception as error:
        if COMPACT not in str(error):
            raise
    return lowered.compile(compiler_options=options)


def compile_once(lowered: Any, request: dict[str, Any], device: Any) -> None:
    """Answers one request; standard error goes to the request's log meanwhile."""
    folder = request["folder"]
    if request["through"] == "lowering":
        leave_module(lowered, request["options"], device, folder)
        return
    until_assigned = request["through"] == "assignment"
    options = dict(request["options"])
    before = set(os.listdir(folder))
    options |= {"xla_dump_to": folder, "xla_dump_hlo_as_text": True}
    if request["dump"]:
        options["xla_dump_hlo_pass_re"] = COLORING
    started_s = _cpu_s()
    if until_assigned:
        threading.Thread(target=_stop_once_assigned, args=(folder, started_s), daemon=True).start()
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(os.path.join(folder, LOG_FILE), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 2)
    os.close(log)
    error = None
    try:
        text = compiled(lowered, options).as_text()
        with open(os.path.join(folder, COMPILED_FILE), "w", encoding="utf-8") as file:
            file.write(text or "")
    except Exception as raised:  # noqa: BLE001 -- the compiler raises several kinds
        if not take_generated(folder):
            error = f"the TPU compiler refused: {_first_line(raised)}"
    finally:
        if not request["dump"]:
            remove_others(folder, before | {LOG_FILE, COMPILED_FILE})
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
    _answer(error, _cpu_s() - started_s)


def _end_with(parent: int) -> None:
    """Ends the process, even during a compilation, when its parent process is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def main(reference: str, topology_name: str, folder: str) -> None:
    """Answers the requests on standard input."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    os.environ.update(compiler_settings())
    here = os.path.dirname(os.path.abspath(__file__))  # Its modules must not shadow the user's.
    sys.path[:] = [os.getcwd(), *(entry for entry in sys.path if entry != here)]
    devices = devices_of(topology_name, folder)
    lowered = Stored(reference, devices) if os.path.isabs(reference) else lower(reference, devices)
    for line in sys.stdin:
        compile_once(lowered, json.loads(line), devices[0])


if __name__ == "__main__":
    if len(sys.argv) != 4 or not (":" in sys.argv[1] or os.path.isabs(sys.argv[1])):
        fail("usage: worker.py PKG.MODULE:FUNCTION|/MODULE TOPOLOGY FOLDER")
    main(sys.argv[1], sys.argv[2], sys.argv[3])
