"""Lowers a function of this process for a TPU: the compiler's process then needs neither source nor packages."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...env.capture.worker import device_ids
from ...env.errors import UserError


class Lowered(NamedTuple):
    """A lowered module, its number of devices, and the order in which the mesh has them; empty for one device."""

    data: bytes
    devices: int
    order: tuple[int, ...] = ()


def lower(function: Callable[..., Any], arguments: Sequence[Any]) -> Lowered:
    """Traces a function with the JAX of this process; returns the lowered module, a portable artifact of StableHLO.

    Nothing runs, so arguments may be abstract, and no TPU need be present. The function's shardings may name any
    devices of this process. An exception of the function itself passes through, with its traceback.

    Args:
      function: what `jax.jit` takes, or the result of `jax.jit`.
      arguments: its positional arguments: arrays, `jax.ShapeDtypeStruct`, or trees of them. Other values are passed
        unchanged: numbers get the weak types that they have in a call, and static arguments keep their values.

    Raises:
      UserError: the function does not accept such arguments.
    """
    import jax
    from jax import export

    if not callable(function):
        raise UserError(f"function is a {type(function).__name__}; give what `jax.jit` takes, or 'PKG.MODULE:FUNCTION'")
    if not isinstance(arguments, tuple | list):
        raise UserError(f"arguments is a {type(arguments).__name__}; give a tuple of the function's arguments")

    def abstract(leaf: Any) -> Any:
        if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
            return leaf
        more: dict[str, Any] = {"weak_type": True} if getattr(leaf, "weak_type", False) else {}
        sharding = getattr(leaf, "sharding", None)
        if sharding is not None and sharding.num_devices > 1:
            more["sharding"] = sharding
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, **more)

    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    given = jax.tree.map(abstract, tuple(arguments))
    exported = export.export(jitted, platforms=("tpu",))(*given)
    order: tuple[int, ...] = ()
    if exported.nr_devices > 1:  # what is exported does not keep the order
        order = _ranks(device_ids(jitted.trace(*given).lower(lowering_platforms=("tpu",))))
    return Lowered(exported.mlir_module_serialized, exported.nr_devices, order)


def _ranks(numbers: list[int]) -> tuple[int, ...]:
    """Returns the place of each number among all, by size: the devices of a process are a part of a topology."""
    ordered = sorted(numbers)
    return tuple(ordered.index(number) for number in numbers)


def name_of(function: Callable[..., Any]) -> str:
    """Returns `PKG.MODULE:FUNCTION` of a function of this process, for the program file."""
    inner = getattr(function, "__wrapped__", function)
    name = getattr(inner, "__qualname__", type(inner).__name__)
    return f"{getattr(inner, '__module__', None) or '__main__'}:{name.rpartition('.')[2].strip('<>')}"
