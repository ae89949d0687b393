"""What is to be compiled: a function of this process, the name of one, or a lowered module in a file."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .lowering import Lowered


@dataclass(frozen=True, eq=False)
class Function:
    """The input of a capture.

    Attributes:
      reference: `PKG.MODULE:FUNCTION`, or what stands for it.
      module: the lowered module; None where the compiler's process traces the function.
      named: whether options may name instructions of it; see `LoweredModule`.
    """

    reference: str
    module: bytes | None = None
    named: bool = True


def check_function(
    function: "Callable[..., Any] | str | Path",
    arguments: Sequence[Any] | None,
    python: Path | None,
    devices: Sequence[int] | str = (),
) -> "Lowered | None":
    """Checks what is to be compiled. To be called before an interpreter is made, which can take minutes.

    Traces a function of this process, reads the beginning of a file, and looks for a name.

    Args:
      function: what `jax.jit` takes, `PKG.MODULE:FUNCTION`, or the file of a lowered module.
      arguments: the arguments of a function of this process.
      python: the interpreter that the user gave, which may import from other folders; None for none.
      devices: see `read_function`.

    Returns:
      The function of this process, lowered; None for a name or a file.

    Raises:
      UserError: there is no such function or file, or the arguments are missing, or given where none belong.
    """
    from ...env.capture.module_file import form_of, is_module_file
    from ...env.capture.reference import check_reference
    from ...env.capture.worker import MAKE_MESH
    from ...env.errors import UserError
    from .lowering import lower

    if isinstance(devices, str) and devices != MAKE_MESH:
        raise UserError(f"--devices {devices}: give numbers, e.g. 0,1,3,2, or {MAKE_MESH}")
    if not isinstance(devices, str) and sorted(devices) != list(range(len(devices))):
        raise UserError(f"--devices {','.join(map(str, devices))}: give each of the numbers from 0 once, e.g. 0,1,3,2")
    if devices and not (isinstance(function, str | Path) and is_module_file(function)):
        raise UserError(
            "--devices: only the file of a module needs them, since a function says its own; leave them out"
        )
    if not isinstance(function, str | Path):
        if arguments is None:
            raise UserError("arguments is missing; give a tuple of the function's arguments, abstract ones will do")
        return lower(function, arguments)
    if arguments is not None:
        raise UserError(f"arguments: {function} returns its own; leave them out")
    if is_module_file(function):
        form_of(Path(function))
    elif python is None:
        check_reference(str(function))
    return None


def read_function(
    function: "Callable[..., Any] | str | Path",
    lowered: "Lowered | None",
    python: Path,
    target: str,
    devices: Sequence[int] | str = (),
    progress: Callable[[str], None] = print,
) -> Function:
    """Returns the input of a capture, from what `check_function` has checked.

    Args:
      function: see `check_function`.
      lowered: the result of `check_function`.
      python: the interpreter that compiles.
      target: see `capture`.
      devices: the devices of a module's partitions, in their order; empty for the order of the topology, `make_mesh`
        for that of `jax.make_mesh`.
      progress: takes one line at a time.

    Raises:
      UserError: the function or the module cannot be used; the message says how to fix it.
    """
    from ...env.capture.module_file import is_module_file, read_module_file
    from ...env.program.target import find_target
    from .lowering import name_of

    if isinstance(function, str | Path):
        if not is_module_file(function):
            return Function(str(function))
        read = read_module_file(Path(function), python, devices, find_target(target)[1])
        if read.partitions > 1 and not devices:
            progress(
                f"a dumped module does not say which device runs which of its {read.partitions} partitions: they take "
                "the devices in the order of their numbers. If the mesh has another order, names in the options match "
                "nothing: give --devices make_mesh if `jax.make_mesh` or `mesh_utils` made it, as in MaxText, else "
                "what `[d.id for d in mesh.devices.flat]` is"
            )
        elif read.partitions > 1 and isinstance(devices, str):
            progress(f"the mesh that jax makes has the devices in the order {','.join(map(str, read.devices))}")
        return Function(read.reference, read.data, read.named)
    assert lowered is not None
    name = name_of(function)
    if lowered.devices == 1:
        return Function(name, lowered.data)
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        path = Path(folder) / "sharded.stablehlo"
        path.write_bytes(lowered.data)
        read = read_module_file(path, python, lowered.order)
    return Function(name, read.data)
