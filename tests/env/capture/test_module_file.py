"""Lowered modules in files: every form is read as the same module, and what cannot be compiled is said."""

import importlib.util
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from compiler_cases import interpreter, real_python
from jax import export
from jax.interpreters import mlir
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.module_file import LoweredModule, form_of, is_module_file, read_module_file
from mallocmuzero.env.errors import UserError

PYTHON = Path(sys.executable)
ARRAY = jax.ShapeDtypeStruct((8, 128), jnp.float32)


def step(x: Any, w: Any) -> Any:
    return jax.nn.relu(x @ w)


def lowered() -> Any:
    return jax.jit(step).lower(ARRAY, jax.ShapeDtypeStruct((128, 128), jnp.float32)).compiler_ir("stablehlo")


def text(names: bool = True) -> str:
    return str(lowered().operation.get_asm(enable_debug_info=names))


def bytecode() -> bytes:
    written = io.BytesIO()
    module = lowered()
    with module.context:
        module.operation.write_bytecode(written)
    return written.getvalue()


def exported(*platforms: str) -> Any:
    return export.export(jax.jit(step), platforms=platforms)(ARRAY, jax.ShapeDtypeStruct((128, 128), jnp.float32))


def written(folder: Path, data: str | bytes, name: str = "step.mlir") -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def operations(read: LoweredModule) -> list[str]:
    """Returns the names of the operations in the function `main` of a module that was read."""
    context = mlir.make_ir_context()
    module = stablehlo.deserialize_portable_artifact(context, read.data)
    with context:
        main = next(one for one in module.body.operations if ir.StringAttr(one.attributes["sym_name"]).value == "main")
        return [inner.name for inner in main.regions[0].blocks[0].operations]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("jax_ir0001_jit_step_compile.mlir", text),
        ("step.mlirbc", bytecode),
        ("step.stablehlo", lambda: exported("tpu").mlir_module_serialized),
        ("step.exported", lambda: bytes(exported("tpu").serialize())),
    ],
)
def test_every_form_is_the_same_module(tmp_path: Path, name: str, data: Callable[[], str | bytes]) -> None:
    read = read_module_file(written(tmp_path, data(), name), PYTHON)
    assert read.reference == f"{name}:step"
    assert (read.partitions, read.named) == (1, True)
    found = operations(read)
    assert found[0] == "stablehlo.dot_general"
    assert found[-1] == "func.return"


def test_names_stay_and_source_files_do_not(tmp_path: Path) -> None:
    whole = text()
    assert __file__ in whole
    read = read_module_file(written(tmp_path, whole), PYTHON)
    assert __file__.encode() not in read.data
    assert b"dot_general" in read.data
    assert not read_module_file(written(tmp_path, text(names=False)), PYTHON).named


def generic() -> str:
    return str(lowered().operation.get_asm(enable_debug_info=True, print_generic_op_form=True))


ALONE = """func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = stablehlo.add %x, %x : tensor<8xf32> loc(PLACE)
  return %y : tensor<8xf32>
}
"""


@pytest.mark.parametrize(
    ("data", "name", "operation"),
    [
        (generic, "step", "stablehlo.dot_general"),
        (lambda: '// A comment.\n#loc = loc("add")\n' + ALONE.replace("PLACE", "#loc"), "main", "stablehlo.add"),
    ],
)
def test_every_way_to_write_text(tmp_path: Path, data: Callable[[], str], name: str, operation: str) -> None:
    read = read_module_file(written(tmp_path, data()), PYTHON)
    assert (read.reference, read.named, operations(read)[0]) == (f"step.mlir:{name}", True, operation)


def test_places_are_no_names(tmp_path: Path) -> None:
    fused = '["a.py":1:1, "b.py":2:2]'
    line = "  %y{} = stablehlo.add %x, %x : tensor<8xf32> loc({})"
    places = ('callsite("a.py":1:1 at "b.py":2:2)', f"fused{fused}", f'fused<"CSE">{fused}')
    lines = "\n".join(line.format(number, place) for number, place in enumerate(places))
    whole = "module {\n" + ALONE.replace("  return", f"{lines}\n  return") + "}"
    assert not read_module_file(written(tmp_path, whole.replace("PLACE", "unknown")), PYTHON).named
    named = whole.replace("PLACE", 'callsite("a.py":1:1 at "add"("b.py":2:2))')
    assert read_module_file(written(tmp_path, named), PYTHON).named


def test_partitions_are_the_devices_of_the_target_in_their_order(tmp_path: Path) -> None:
    whole = re.sub(r"mhlo.num_partitions = 1", "mhlo.num_partitions = 4", text())
    read = read_module_file(written(tmp_path, whole), PYTHON)
    assert read.partitions == 4
    again = read_module_file(written(tmp_path, read.data, "again.stablehlo"), PYTHON)
    assert again.data == read.data  # it names its devices now
    ring = read_module_file(written(tmp_path, whole), PYTHON, [0, 1, 3, 2])
    assert (devices_in(read), devices_in(ring)) == ([0, 1, 2, 3], [0, 1, 3, 2])
    with pytest.raises(UserError, match="--devices 0,1 is 2 devices, and it has 4 partitions"):
        read_module_file(written(tmp_path, whole), PYTHON, [0, 1])
    with pytest.raises(UserError, match="names its devices itself; leave out --devices"):
        read_module_file(written(tmp_path, read.data, "again.stablehlo"), PYTHON, [0, 1, 2, 3])


def test_the_order_of_a_mesh_is_asked_of_jax_for_several_partitions_alone(tmp_path: Path) -> None:
    assert read_module_file(written(tmp_path, text()), PYTHON, worker.MAKE_MESH, "v5e:1x1").devices == (0,)
    several = written(tmp_path, text().replace("mhlo.num_partitions = 1", "mhlo.num_partitions = 4"))
    if importlib.util.find_spec("libtpu") is None:
        with pytest.raises(UserError, match="cannot import libtpu: install jax and libtpu there"):
            read_module_file(several, PYTHON, worker.MAKE_MESH, "v5e:2x2")


# Dumps a function that is sharded over a mesh that jax makes, and prints the order of its devices.
MESH = """
import jax, jax.numpy as jnp, sys
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

devices = topologies.get_topology_desc(platform="tpu", topology_name=sys.argv[1]).devices
mesh = jax.make_mesh(tuple(map(int, sys.argv[2].split(","))), ("data", "model"), devices=devices)
rows = NamedSharding(mesh, PartitionSpec("data", "model"))
x = jax.ShapeDtypeStruct((256, 512), jnp.bfloat16, sharding=rows)
print(jax.jit(lambda x: jnp.tanh(x).sum()).trace(x).lower().as_text(debug_info=True))
print("order", *(device.id for device in mesh.devices.flat), file=sys.stderr)
"""


@pytest.mark.parametrize(("topology", "shape"), [("v5e:2x2", "1,4"), ("v5e:2x4", "2,4"), ("v5p:2x2x2", "4,2")])
def test_the_order_of_a_mesh_is_found_with_the_real_compiler(tmp_path: Path, topology: str, shape: str) -> None:
    python = real_python()
    environment = {**os.environ, **worker.compiler_settings()}
    command = [python, "-c", MESH, topology, shape]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    order = tuple(map(int, done.stderr.rpartition("order ")[2].split()))
    assert order != tuple(range(len(order)))
    path = written(tmp_path, done.stdout)
    assert read_module_file(path, python, worker.MAKE_MESH, topology).devices == order
    with pytest.raises(UserError, match=f"it has {len(order)} partitions, and v5e:4x4 has 16 devices"):
        read_module_file(path, python, worker.MAKE_MESH, "v5e:4x4")


def devices_in(read: LoweredModule) -> list[int]:
    """Returns the devices that a module names."""
    module = stablehlo.deserialize_portable_artifact(mlir.make_ir_context(), read.data)
    return list(module.operation.attributes[worker.DEVICES])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: text().replace("num_replicas = 1", "num_replicas = 4"), r"4 replicas \(pmap\); use jax.jit with"),
        (lambda: text().replace("@main", "@other"), "no function `main`"),
        (lambda: text().replace("stablehlo.dot_general", "stablehlo.no_such"), r"cannot read it \(MLIR text\): .*jax"),
        (lambda: text()[:600], r"cannot read it \(MLIR text\)"),
        (lambda: bytes(exported("cpu").serialize()), "exported for cpu; export it with platforms"),
        (lambda: bytes(exported("tpu").serialize())[:300], r"cannot read it \(jax.export\)"),
    ],
)
def test_what_cannot_be_compiled(tmp_path: Path, data: Callable[[], str | bytes], message: str) -> None:
    path = written(tmp_path, data())
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: .*{message}"):
        read_module_file(path, PYTHON)


def test_shapes_are_known(tmp_path: Path) -> None:
    (rows,) = export.symbolic_shape("b")
    made = export.export(jax.jit(step), platforms=("tpu",))(
        jax.ShapeDtypeStruct((rows, 128), jnp.float32), jax.ShapeDtypeStruct((128, 128), jnp.float32)
    )
    with pytest.raises(UserError, match="unknown shape; lower it for one shape"):
        read_module_file(written(tmp_path, made.mlir_module_serialized), PYTHON)


def test_an_interpreter_that_cannot_read(tmp_path: Path) -> None:
    path = written(tmp_path, text())
    with pytest.raises(UserError, match="cannot be run"):
        read_module_file(path, tmp_path / "nowhere")
    broken = interpreter(tmp_path, "echo it broke >&2; exit 1")
    with pytest.raises(UserError, match="cannot read it as MLIR text: it broke"):
        read_module_file(path, broken)


@pytest.mark.parametrize(
    "beginning",
    [
        "module @jit_step {}",
        "\n// a comment\n\nbuiltin.module {}",
        '#loc1 = loc("weights")\n' * 9000 + "module {}",
        "!array = tensor<8xf32>\nmodule {}",
        '// a comment\n// another\n#loc = loc("weights")\nmodule {}',
        '"builtin.module"() ({\n}) : () -> ()',
        "func.func @main() {\n  return\n}",
        '"func.func"() <{function_type = () -> (), sym_name = "main"}> ({',
        'sdy.mesh @mesh = <["x"=2]>\nfunc.func @main() {',
        "{-# dialect_resources: {} #-}\nmodule {}",
    ],
)
def test_beginnings_of_text(tmp_path: Path, beginning: str) -> None:
    assert form_of(written(tmp_path, beginning)) == worker.MLIR_TEXT


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("script.sh", b"#!/bin/sh\n# module", "holds none"),
        ("notes.txt", b"nothing of the kind", "holds none; give a lowered module"),
        ("module_0001.txt", b"HloModule jit_f, is_scheduled=true", "holds an HLO module"),
        ("comment.mlir", b"// module\n// func.func\n", "holds none"),
        ("function.py", b"func.function = 1", "holds none"),
        ("empty.mlir", b"", "holds none"),
    ],
)
def test_what_holds_none(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(UserError, match=message):
        form_of(written(tmp_path, data, name))


def test_a_folder_names_its_modules(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"folder without modules; give PKG[.]MODULE:FUNCTION, or a lowered module"):
        form_of(tmp_path)
    small, large = (written(tmp_path, "module @m {}" + " " * spaces, f"{spaces}.mlir") for spaces in (1, 100))
    written(tmp_path, "no such thing", "other.mlir")
    with pytest.raises(UserError, match=f"give one of its modules: {large}, {small}$"):
        form_of(tmp_path)
    with pytest.raises(UserError, match="cannot be read"):
        form_of(tmp_path / "nothing.mlir")


def test_a_file_or_a_function(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, "", "a:b")
    written(tmp_path, "", "model.py")
    (tmp_path / "dump").mkdir()
    for given in ("a:b", "dump", "nothing.mlir", tmp_path / "x"):
        assert is_module_file(given), given
    for function in ("model:step", "models.bert:train", "model.py", "model.py:step", "model"):
        assert not is_module_file(function), function
