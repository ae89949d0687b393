"""Arguments shared by the commands that ask the real compiler: `capture`, `confirm`, `impose` and `tune`."""

import argparse
from collections.abc import Sequence
from pathlib import Path


def add_target(parser: argparse.ArgumentParser) -> None:
    """Adds `--target GENERATION[:TOPOLOGY]`."""
    parser.add_argument(
        "--target",
        required=True,
        metavar="GENERATION[:TOPOLOGY]",
        help="TPU generation, e.g. v5e, or several chips of one, e.g. v5e:2x2",
    )


def add_options_output(parser: argparse.ArgumentParser) -> None:
    """Adds `-o OPTIONS`."""
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OPTIONS",
        help="file for the options: .json for `jax.jit(f).lower(...).compile(compiler_options=...)`, or .flags for "
        "LIBTPU_INIT_ARGS=--flagfile=OPTIONS",
    )


def add_base_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--option NAME=VALUE`, which may be repeated."""
    parser.add_argument(
        "--option",
        dest="base",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a compiler option that your program is compiled with anyway; may be repeated",
    )


def base_options(given: Sequence[str]) -> dict[str, str]:
    """Returns the options of `--option` by name. Raises UserError if one has no name or no value."""
    from ...env.errors import UserError

    found: dict[str, str] = {}
    for text in given:
        name, equals, value = text.removeprefix("--").partition("=")
        if not (name and equals and value):
            raise UserError(f"--option {text}: give NAME=VALUE, such as xla_tpu_scoped_vmem_limit_kib=32768")
        found[name] = value
    return found


def add_devices(parser: argparse.ArgumentParser) -> None:
    """Adds `--devices N,N,...`."""
    parser.add_argument(
        "--devices",
        metavar="N,N,...|make_mesh",
        help="for the file of a module with several partitions: the order in which the mesh has the devices, "
        "`[d.id for d in mesh.devices.flat]`, or make_mesh if `jax.make_mesh` or `mesh_utils` made it; by default "
        "0,1,2,...",
    )


def devices_of(given: str | None) -> list[int] | str:
    """Returns the numbers of `--devices`, none without it, or `make_mesh`. Raises UserError if it is neither."""
    from ...env.capture.worker import MAKE_MESH
    from ...env.errors import UserError

    if given == MAKE_MESH:
        return MAKE_MESH
    try:
        return [int(number) for number in given.split(",")] if given else []
    except ValueError:
        raise UserError(f"--devices {given}: give numbers separated by commas, e.g. 0,1,3,2, or make_mesh") from None


def interpreter(given: str) -> Path:
    """Returns the argument of `--python` as a path, see `env/capture/environment.py`."""
    from ...env.capture.environment import interpreter_path
    from .arguments import text

    return interpreter_path(text(given))


def add_python_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--python PATH` and `--jax VERSION`."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--jax",
        metavar="VERSION",
        help="compile with this version of jax and the libtpu that pip takes for it, in an interpreter that is made "
        "once, and kept, and has flax and optax too; for example 0.9.2",
    )
    group.add_argument(
        "--python",
        type=interpreter,
        metavar="PATH",
        help="interpreter with jax, libtpu and the packages of the model; by default this one, if it has libtpu, or "
        "one that is made once, and kept",
    )
