"""Structures of arrays that compiled code takes as one pointer.

A `Struct` names arrays. Compiled code reads a field through the pointer (`state.buffer[owner].offset`); an argument is
one word, however many arrays there are. As a tuple of arrays the same state is seven words for each array: Numba counts
references to each, LLVM carries all words through each call, and a compilation takes several times as long
(docs/decisions/0018-structs.md).

A field is one of four kinds: `rows` of records or of scalars, which compiled code indexes without a check and without
wrapping negative indices; one record (`one`); a contiguous `array` of any number of dimensions; a `part`, a structure
of its own. A structure keeps its arrays alive; compiled code must not keep it longer than the call.
"""

import operator
from collections.abc import Callable
from typing import Any, ClassVar, Self, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import (
    NativeValue,
    intrinsic,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

Rows = NDArray[Any]

_WORD = 8


class _Kind:
    """A field: how it is stored, and its type in compiled code."""

    def __init__(
        self,
        kind: str,
        dtype: Any = None,
        dimensions: int = 0,
        part: "type[Struct] | None" = None,
        kernel: Any = None,
    ) -> None:
        self.kind, self.dimensions, self.part, self.kernel = kind, dimensions, part, kernel
        self.dtype = None if dtype is None else np.dtype(dtype)

    @property
    def words(self) -> int:
        """Words in the structure: the address, then lengths."""
        return 1 + {"rows": 1, "array": self.dimensions}.get(self.kind, 0)

    @property
    def numba_type(self) -> types.Type:
        if self.kind == "part":
            assert self.part is not None
            return self.part.numba_type()
        if self.kind == "function":
            return types.ExternalFunctionPointer(signature_of(*self.kernel.declared), get_pointer=_no_pointer)
        assert self.dtype is not None
        item: Any = from_dtype(self.dtype)
        if self.kind == "rows":
            return RowsType(item)
        return item if self.kind == "one" else types.Array(item, self.dimensions, "C")

    def check(self, owner: str, name: str, value: Any) -> None:
        """Raises TypeError for a value that compiled code would misread."""
        if self.kind == "part":
            if type(value) is not self.part:
                raise TypeError(f"{owner}.{name} is a {type(value).__name__}, not a {self.part and self.part.__name__}")
            return
        array = value if self.kind != "one" else np.asarray(value)
        if not isinstance(array, np.ndarray) or array.dtype != self.dtype:
            raise TypeError(f"{owner}.{name} holds {getattr(array, 'dtype', type(array))}, not {self.dtype}")
        if array.ndim != self.dimensions or not array.flags.c_contiguous:
            raise TypeError(f"{owner}.{name} must be contiguous with {self.dimensions} dimensions, not {array.ndim}")


def rows(dtype: Any) -> Any:
    """Declares a field of rows, one-dimensional."""
    return _Kind("rows", dtype, 1)


def one(dtype: Any) -> Any:
    """Declares a field of one record (`np.record`: fields are attributes outside compiled code as well)."""
    return _Kind("one", dtype, 0)


def array(dtype: Any, dimensions: int) -> Any:
    """Declares a field of a contiguous array."""
    return _Kind("array", dtype, dimensions)


def part(struct: "type[Struct]") -> Any:
    """Declares a field that is a structure of its own."""
    return _Kind("part", part=struct)


def at_address(struct: "type[Struct]") -> Callable[[int], Any]:
    """Returns a function for compiled code: the structure at an address (`Struct.address`), which its owner keeps
    alive."""

    @intrinsic
    def read(typingctx: Any, address: Any) -> Any:
        def convert(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(sig.return_type))

        return signature(struct.numba_type(), types.int64), convert

    return cast(Callable[[int], Any], read)


def new_record(dtype: np.dtype[Any], **fields: Any) -> Any:
    """Returns a record with these fields, the others 0; fields are attributes."""
    rows = np.zeros(1, dtype)
    for name, value in fields.items():
        rows[name] = value
    return rows.view(np.recarray)[0]


def function(kernel: Any) -> Any:
    """Declares a field that calls a kernel: compiled code that calls it through the field does not compile it again."""
    return _Kind("function", kernel=kernel)


def _no_pointer(function: Any) -> int:
    raise NotImplementedError("a field's kernel is called by its address alone")


class Struct:
    """The base of structures. A subclass declares its fields with `rows`, `one`, `array` and `part`."""

    _kinds: ClassVar[dict[str, _Kind]] = {}
    _numba_type_: ClassVar[Any] = None
    _named: ClassVar[set[str]] = set()

    def __init_subclass__(cls) -> None:
        cls._kinds = {name: value for name, value in vars(cls).items() if isinstance(value, _Kind)}
        for name in cls._kinds:
            delattr(cls, name)
        cls._numba_type_ = None
        cls._named = set(cls._given_names())

    def __init__(self, **fields: Any) -> None:
        """Takes the fields; they are shared, not copied.

        Raises:
          TypeError: a field is missing, unknown, or not what was declared.
        """
        if fields.keys() != self._named:
            raise TypeError(
                f"{type(self).__name__} has the fields {', '.join(self._given_names())}, not {', '.join(fields)}"
            )
        words: list[int] = []
        for name, kind in self._kinds.items():
            if kind.kind == "function":
                words.append(kind.kernel.address())
                continue
            value = fields[name]
            if (
                type(value) is not np.ndarray
                or value.dtype is not kind.dtype
                or value.ndim != kind.dimensions
                or not value.flags.c_contiguous
            ):
                kind.check(type(self).__name__, name, value)
            if kind.kind == "part":
                words.append(value.address)
            elif kind.kind == "one":
                words.append(np.asarray(value).ctypes.data)
            else:
                words.append(value.ctypes.data)
                words += value.shape
        self.__dict__.update(fields)
        if self._numba_type_ is None:
            type(self).numba_type()
        self._words = np.array(words, np.int64)
        self.address = self._words.ctypes.data

    def replace(self, **fields: Any) -> Self:
        """Returns a structure with other fields, the rest shared."""
        return type(self)(**{**self._given(), **fields})

    @classmethod
    def _given_names(cls) -> list[str]:
        return [name for name, kind in cls._kinds.items() if kind.kind != "function"]

    def _given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._given_names()}

    def __reduce__(self) -> Any:
        return _rebuild, (type(self), self._given())

    @classmethod
    def numba_type(cls) -> "StructType":
        """Returns the type in compiled code."""
        if cls._numba_type_ is None:
            places, at = [], 0
            for name, kind in cls._kinds.items():
                places.append((name, kind.numba_type, at))
                at += kind.words * _WORD
            # Under this name Numba's dispatcher finds it without a look at the fields.
            cls._numba_type_ = StructType(f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}", tuple(places))
        return cls._numba_type_


def _rebuild(struct: type[Struct], fields: dict[str, Any]) -> Struct:
    return struct(**fields)


def signature_of(arguments: tuple[Any, ...], returns: Any) -> Any:
    """Returns a declared signature in Numba's types."""
    return (types.none if returns is None else numba_type(returns))(*(numba_type(each) for each in arguments))


def numba_type(declared: Any) -> types.Type:
    """Returns Numba's type for a declared one: a `Struct`, `int`, `float`, `bool`, a record's dtype, or Numba's own."""
    if isinstance(declared, types.Type):
        return declared
    if isinstance(declared, np.dtype):
        return from_dtype(declared)
    if issubclass(declared, Struct):
        return declared.numba_type()
    return {int: types.int64, float: types.float64, bool: types.boolean}[declared]


class RowsType(types.Type):
    """Rows of a type, in compiled code: an address and a length."""

    def __init__(self, item: types.Type) -> None:
        self.item = item
        super().__init__(name=f"Rows({item})")


class StructType(types.Type):
    """A structure in compiled code: the address of its words."""

    def __init__(self, name: str, places: tuple[tuple[str, types.Type, int], ...]) -> None:
        self.places = places
        self.by_name = {field: (kind, at) for field, kind, at in places}
        super().__init__(name=name)

    @property
    def key(self) -> Any:
        return (self.name, self.places)


@register_model(RowsType)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, rows_type: RowsType) -> None:
        members = [("data", types.CPointer(types.int8)), ("length", types.intp)]
        super().__init__(manager, rows_type, members)


@register_model(StructType)
class _StructModel(models.OpaqueModel):
    pass


@typeof_impl.register(Struct)
def _type_of(value: Struct, context: Any) -> StructType:
    return value.numba_type()


@unbox(StructType)
def _unbox(struct_type: StructType, value: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(value, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@infer_getattr
class _StructAttribute(AttributeTemplate):
    key = StructType

    def generic_resolve(self, struct_type: Any, name: str) -> Any:  # type: ignore[override]
        found = struct_type.by_name.get(name)
        return None if found is None else found[0]


def _load(builder: Any, pointer: Any, at: int, llvm_type: Any) -> Any:
    """Loads a word of a structure. Words never change, so LLVM may load each once."""
    place = builder.gep(pointer, [ir.Constant(ir.IntType(64), at)])
    value = builder.load(builder.bitcast(place, llvm_type.as_pointer()))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@lower_getattr_generic(StructType)
def _get_field(context: Any, builder: Any, struct_type: StructType, value: Any, name: str) -> Any:
    kind, at = struct_type.by_name[name]
    word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    if isinstance(kind, StructType):
        return _load(builder, value, at, pointer)
    if isinstance(kind, types.ExternalFunctionPointer):
        return _load(builder, value, at, context.get_value_type(kind))
    if isinstance(kind, types.Record):
        return _load(builder, value, at, context.get_value_type(kind))
    if isinstance(kind, RowsType):
        found = cgutils.create_struct_proxy(kind)(context, builder)
        found.data = _load(builder, value, at, pointer)
        found.length = _load(builder, value, at + _WORD, word)
        return found._getvalue()
    assert isinstance(kind, types.Array)
    found = make_array(kind)(context, builder)
    lengths = [_load(builder, value, at + (1 + d) * _WORD, word) for d in range(kind.ndim)]
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides: list[Any] = []
    stride = context.get_constant(types.intp, size)
    for length in lengths[::-1]:
        strides.insert(0, stride)
        stride = builder.mul(stride, length)
    count = context.get_constant(types.intp, 1)
    for length in lengths:
        count = builder.mul(count, length)
    found.meminfo = cgutils.get_null_value(found.meminfo.type)
    found.parent = cgutils.get_null_value(found.parent.type)
    found.nitems, found.itemsize = count, context.get_constant(types.intp, size)
    found.data = _load(builder, value, at, found.data.type)
    found.shape, found.strides = cgutils.pack_array(builder, lengths), cgutils.pack_array(builder, strides)
    return found._getvalue()


@infer_global(operator.getitem)
class _GetRow(AbstractTemplate):
    def generic(self, arguments: tuple[types.Type, ...], keywords: Any) -> Any:
        found, index = arguments
        if isinstance(found, RowsType) and isinstance(index, types.Integer):
            return signature(found.item, found, index)
        return None


@infer_global(operator.setitem)
class _SetRow(AbstractTemplate):
    def generic(self, arguments: tuple[types.Type, ...], keywords: Any) -> Any:
        found, index, _ = arguments
        if isinstance(found, RowsType) and isinstance(index, types.Integer) and isinstance(found.item, types.Number):
            return signature(types.none, found, index, found.item)
        return None


@infer_global(len)
class _LengthOfRows(AbstractTemplate):
    def generic(self, arguments: tuple[types.Type, ...], keywords: Any) -> Any:
        (found,) = arguments
        return signature(types.intp, found) if isinstance(found, RowsType) else None


def _place(context: Any, builder: Any, rows_type: RowsType, value: Any, index_type: Any, index: Any) -> Any:
    """Returns the address of a row as bytes."""
    found = cgutils.create_struct_proxy(rows_type)(context, builder, value=value)
    index = context.cast(builder, index, index_type, types.intp)
    size = context.get_abi_sizeof(context.get_data_type(rows_type.item))
    if isinstance(rows_type.item, types.Record):
        size = rows_type.item.size
    return builder.gep(found.data, [builder.mul(index, context.get_constant(types.intp, size), flags=["nsw"])])


@lower_builtin(operator.getitem, RowsType, types.Integer)
def _get_row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    rows_type, index_type = sig.args
    place = _place(context, builder, rows_type, arguments[0], index_type, arguments[1])
    if isinstance(rows_type.item, types.Record):
        return builder.bitcast(place, context.get_value_type(rows_type.item))
    data = context.get_data_type(rows_type.item)
    return context.unpack_value(builder, rows_type.item, builder.bitcast(place, data.as_pointer()))


@lower_builtin(operator.setitem, RowsType, types.Integer, types.Any)
def _set_row(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    rows_type, index_type, value_type = sig.args
    place = _place(context, builder, rows_type, arguments[0], index_type, arguments[1])
    value = context.cast(builder, arguments[2], value_type, rows_type.item)
    data = context.get_data_type(rows_type.item)
    context.pack_value(builder, rows_type.item, value, builder.bitcast(place, data.as_pointer()))
    return context.get_dummy_value()


@lower_builtin(len, RowsType)
def _length_of_rows(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    return cgutils.create_struct_proxy(sig.args[0])(context, builder, value=arguments[0]).length
