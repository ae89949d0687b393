"""Reads a lowered module that another program wrote, and makes a portable artifact of StableHLO of it.

Runs stand-alone, as a file, in an interpreter with jax:

    python module_reader.py FORM FILE ARTIFACT [DEVICES [TOPOLOGY]]

FORM is how FILE holds the module, as `worker.py` names it. DEVICES are the numbers of the devices of its partitions, in
their order, separated by commas; by default 0,1,2,... `make_mesh` is the order in which `jax.make_mesh` has those of
TOPOLOGY, such as v5e:2x2. One line `capture-done: {...}` on standard output gives what the
rest of the capture needs: `name`, `partitions`, `named` (whether its operations have the names that the compiler names
instructions after). A failure that the user can mend is one line `capture-error: ...` and exit status 3. The artifact
names no source files.
"""

import importlib
import json
import math
import re
import sys
import tempfile
from typing import Any

import worker
from worker import ARTIFACT, EXPORTED, MAKE_MESH

_PLATFORM = "tpu"
# A place in a source file, among the aliases of locations that end a printed module: `"FILE":LINE:COLUMN to :COLUMN`.
_PLACE = re.compile(r'"(?:[^"\\]|\\.)*":\d+:\d+(?: to \d*:\d+)?')
_ALIAS = "#loc"
# The axes of a mesh, `<["data"=1, "model"=4]>`, and their sizes. One that lists its devices is another mesh's part.
_AXES, _SIZE = re.compile(r"<\[([^\]]*)\]>"), re.compile(r"=(\d+)")
# A string in an operation's printed location. Before a line it is a file, before `>` the reason why MLIR fused two; any
# other is a name.
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(:\d|>)?')


def parsed(form: str, data: bytes) -> Any:
    """Returns the module; a failure ends the process."""
    from jax.interpreters import mlir

    context = mlir.make_ir_context()
    if form == EXPORTED:
        form, data = ARTIFACT, _exported(data)
    if form == ARTIFACT:
        stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
        return stablehlo.deserialize_portable_artifact(context, data)
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    with context:
        return ir.Module.parse(data)


def _exported(data: bytes) -> bytes:
    """Returns the artifact in a serialised `jax.export.Exported`."""
    try:
        from jax import export

        exported = export.deserialize(bytearray(data))
    except ImportError as error:
        worker.fail(f"{error}; or write its `mlir_module_serialized` to the file")
    if tuple(exported.platforms) != (_PLATFORM,):
        worker.fail(f"it was exported for {', '.join(exported.platforms)}; export it with platforms=('tpu',)")
    return bytes(exported.mlir_module_serialized)


def facts(module: Any) -> dict[str, Any]:
    """Returns what the capture needs from a module; one that it cannot compile ends the process."""
    attributes = module.operation.attributes
    replicas, partitions = (
        int(attributes[name].value) if name in attributes else 1
        for name in ("mhlo.num_replicas", "mhlo.num_partitions")
    )
    functions: list[Any] = [
        operation for operation in module.body.operations if operation.OPERATION_NAME == "func.func"
    ]
    main: Any = next((function for function in functions if function.name.value == "main"), None)
    if main is None:
        worker.fail("it has no function `main`; give a module that was lowered for the compiler")
    if replicas > 1:
        worker.fail(f"it runs as {replicas} replicas (pmap); use jax.jit with shardings instead")
    if any("?" in str(kind) for kind in (*main.type.inputs, *main.type.results)):
        worker.fail("it has arguments or results of unknown shape; lower it for one shape")
    name = str(attributes["sym_name"].value) if "sym_name" in attributes else "main"
    named = any(
        not string[1]
        for function in functions
        for block in function.regions[0].blocks
        for operation in block.operations
        for string in _STRING.finditer(str(operation.location))
    )
    return {"name": name.removeprefix("jit_"), "partitions": partitions, "named": named}


def without_places(module: Any) -> Any:
    """Returns a module whose locations name operations, as before, and no source files."""
    ir: Any = importlib.import_module("jaxlib.mlir.ir")
    text = module.operation.get_asm(enable_debug_info=True)
    lines = (_PLACE.sub("unknown", line) if line.startswith(_ALIAS) else line for line in text.split("\n"))
    with module.context:
        return ir.Module.parse("\n".join(lines))


def _reason(error: Exception) -> str:
    """Returns the line of an error that says what is wrong, or its first."""
    lines = [line.strip() for line in str(error.__cause__ or error).splitlines() if line.strip()]
    telling = [line for line in lines if "error:" in line]
    return next(iter([*telling, *lines, type(error).__name__]))[:300]


def mesh_shape(module: Any, partitions: int) -> list[int]:
    """Returns the shape of the module's mesh; that of one axis if the module tells none."""
    told = [str(operation) for operation in module.body.operations if operation.OPERATION_NAME == "sdy.mesh"]
    for axes in _AXES.findall("\n".join([*told, str(module.operation.attributes)])):
        sizes = [int(size) for size in _SIZE.findall(axes)]
        if math.prod(sizes) == partitions:
            return sizes
    return [partitions]


def of_make_mesh(shape: list[int], topology: str) -> list[int]:
    """Returns the devices of a mesh of a shape that `jax.make_mesh` makes of a topology."""
    from jax.experimental import mesh_utils

    with tempfile.TemporaryDirectory() as folder:
        devices = worker.devices_of(topology, folder)
    if math.prod(shape) != len(devices):
        worker.fail(f"it has {math.prod(shape)} partitions, and {topology} has {len(devices)} devices")
    try:
        mesh = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    except (NotImplementedError, ValueError) as error:
        worker.fail(f"jax makes no mesh {shape} of {topology} ({_reason(error)}); give --devices the numbers")
    return [int(device.id) for device in mesh.flat]


def ordered(partitions: int, devices: str, module: Any, topology: str) -> list[int]:
    """Returns the devices of the partitions, in their order; a wrong number of them ends the process."""
    if not devices or (devices == MAKE_MESH and partitions == 1):
        return list(range(partitions))
    if worker.DEVICES in module.operation.attributes:
        worker.fail("it names its devices itself; leave out --devices")
    if devices == MAKE_MESH:
        return of_make_mesh(mesh_shape(module, partitions), topology)
    ids = [int(number) for number in devices.split(",")]
    if len(ids) != partitions:
        worker.fail(f"--devices {devices} is {len(ids)} devices, and it has {partitions} partitions")
    return ids


def main(form: str, path: str, output: str, devices: str = "", topology: str = "") -> None:
    """Reads the module, writes the artifact, and prints the facts."""
    try:
        import jax
    except ImportError as error:
        worker.fail(f"{sys.executable} cannot import {error.name}: install jax and libtpu there, or leave out --python")
    with open(path, "rb") as file:
        data = file.read()
    try:
        module = parsed(form, data)
        found = facts(module)
        # Modules that a capture has kept name their devices; the device order of others is unknown.
        ids = ordered(found["partitions"], devices, module, topology)
        if worker.DEVICES not in module.operation.attributes:
            data = worker.portable(without_places(module), ids)
    except Exception as error:  # noqa: BLE001 -- jaxlib raises several kinds
        reason = _reason(error)
        worker.fail(f"jax {jax.__version__} cannot read it ({form}): {reason}; give the jax that wrote it (--jax)")
    with open(output, "wb") as file:
        file.write(data)
    print(f"\n{worker.DONE}{json.dumps({**found, 'devices': ids})}", flush=True)


if __name__ == "__main__":
    sys.path.pop(0)  # Modules of this folder must not take the place of others.
    main(*sys.argv[1:])
