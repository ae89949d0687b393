"""Copies of whole game states, in compiled code."""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typing import signature
from numba.extending import intrinsic
from numba.np.arrayobj import make_array


@intrinsic
def copy_elements(typingctx: Any, source: Any, source_at: Any, into: Any, into_at: Any, count: Any) -> Any:
    """Copies `count` elements of a contiguous array, from `source_at` on, to another, from `into_at` on.

    One block copy; a loop with offsets, or an assignment to a slice, takes ten times as long.
    """
    if source.dtype != into.dtype or source.ndim != 1 or into.ndim != 1:
        return None

    def generate(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(sig.args[0].dtype))
        data = []
        for k in (0, 2):
            array = make_array(sig.args[k])(context, builder, arguments[k])
            data.append(builder.gep(array.data, [arguments[k + 1]]))
        cgutils.raw_memcpy(builder, data[1], data[0], arguments[4], size)
        return context.get_dummy_value()

    return signature(types.none, source, types.int64, into, types.int64, types.int64), generate
