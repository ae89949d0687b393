"""Named tuples of arrays without reference counting, in compiled code.

Numba passes a named tuple as its arrays, and counts a reference to each when a function begins and when it ends: for a
call with `Tables` and `State` about forty atomic instructions, which took half of a game's time. An array without an
owner is not counted. Functions called once per move or more often are inlined as well (`forceinline`), since a call
also copies the members of its tuples.
"""

from typing import Any, Protocol, TypeVar, cast

from numba.core import cgutils, types
from numba.extending import intrinsic

_Record = TypeVar("_Record")


class _Unowned(Protocol):
    def __call__(self, record: _Record) -> _Record: ...


@intrinsic
def _unowned(typingctx: Any, record: Any) -> Any:
    def lend(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _lent(builder, record, arguments[0])

    return record(record), lend


def _lent(builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        owner = cgutils.get_null_value(value.type.elements[0])  # `meminfo`, the first member
        return builder.insert_value(value, owner, 0)
    if isinstance(kind, types.BaseTuple):
        for place, part in enumerate(cast(Any, kind).types):
            value = builder.insert_value(value, _lent(builder, part, builder.extract_value(value, place)), place)
    return value


# In compiled code only: returns the same named tuple, of arrays and of such tuples, with arrays that have no owner. The
# caller's arrays must outlive it, and none of its arrays may be returned.
unowned: _Unowned = cast(_Unowned, _unowned)
