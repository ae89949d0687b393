"""`capture`: turns a JAX function into a program."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.mode import say

if TYPE_CHECKING:
    from ...env.program.program import Program


def capture(
    function: "Callable[..., Any] | str | Path",
    arguments: Sequence[Any] | None = None,
    *,
    target: str = "v5e",
    output: str | Path | None = None,
    python: str | Path | None = None,
    jax: str | None = None,
    compiler_options: Mapping[str, str] | None = None,
    devices: Sequence[int] | str = (),
    name: str | None = None,
    family: str | None = None,
    variants: bool = False,
    quick: bool = False,
    keep: str | Path | None = None,
    progress: Callable[[str], None] = say,
) -> "Program":
    """Compiles a JAX function for a TPU, which need not be present; returns the program with XLA's own mapping.

    Args:
      function: what `jax.jit` takes, with its `arguments`; it is traced by the JAX of this process. Or
        `PKG.MODULE:FUNCTION`, a function without arguments that returns such a function and its arguments, which is
        imported and traced by the compiler's interpreter. Or the file of a lowered module (docs/modules.md).
      arguments: the function's arguments, a tuple of arrays, of `jax.ShapeDtypeStruct`, or of trees of them. None with
        `PKG.MODULE:FUNCTION` and with a file.
      target: TPU generation, or several chips of one, such as `v5e:2x2`.
      output: the program file, .json.gz; None for none.
      python: interpreter with jax and libtpu; None for this one if it has libtpu, else one that is made once and kept.
      jax: version of jax in the interpreter that is made, with the libtpu that pip picks for it; None for the versions
        that this package was tested with.
      compiler_options: options that the function is compiled with; None for none.
      devices: for the file of a module with several partitions: the order in which the mesh has the devices,
        `[d.id for d in mesh.devices.flat]`; `"make_mesh"` if `jax.make_mesh` made it; empty for 0, 1, 2, ...
      name: name of the program; None for the function's.
      family: model family of the program; None for its name.
      variants: also compile under other options, which takes about ten times as long. Adds XLA's mappings under a
        grid of flags, and the code generator's cycles, which the objectives `cycles` and `robust` need.
      quick: end the compilation once memory is assigned, after a tenth of the time; enough for the objective `msa`.
      keep: new folder that keeps the compiler's dumps and logs; None for none.
      progress: called with one line at a time; prints on standard error by default.

    Returns:
      The program.

    Raises:
      UserError: an argument cannot be used, or the function cannot be compiled; the message says how to fix it.
      FormatError: the compiler's output is not understood.
    """
    from ...env.capture.capture import capture as run
    from ...env.capture.environment import check_interpreter, find_interpreter, interpreter_path
    from ...env.capture.variants import PASSES
    from ...env.program.target import find_target
    from ...env.storage.destination import check_destination, check_new_folder
    from .function import check_function, read_function

    check_destination(output, "-o")
    check_new_folder(keep, "--keep")
    find_target(target)
    given = None if python is None else interpreter_path(python)
    check_interpreter(given, jax)
    lowered = check_function(function, arguments, given, devices)
    interpreter = find_interpreter(given, jax, progress)
    read = read_function(function, lowered, interpreter, target, devices, progress)
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        path = Path(folder) / "program.json.gz"
        return run(
            read.reference,
            target,
            path if output is None else Path(output),
            python=interpreter,
            options=compiler_options or {},
            name=name,
            family=family,
            keep=None if keep is None else Path(keep),
            passes=PASSES if variants else 0,
            quick=quick,
            module=read.module,
            named=read.named,
            # The user need not see a temporary file's name.
            progress=lambda line: progress(line.removeprefix(f"wrote {path}: ")),
        )
