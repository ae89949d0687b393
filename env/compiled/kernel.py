"""Kernels and routines: what Numba compiles.

A *kernel* is called from Python, or by other compiled code through its address. It is compiled for one declared
signature, as a whole, and kept on disk. A *routine* is called by kernels and routines only. It is compiled to LLVM's
intermediate form, once for the types of its arguments, and optimised and turned into machine code as a part of each
kernel that needs it.

Numba's own `njit` optimises each function together with all that it calls, makes machine code of it with wrappers for
Python and C, and does so again one level up: for the game that was ten times the work (docs/decisions/0018-structs.md).
It also compiles a function anew for each literal argument. Here arguments count by their types alone.
"""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.typed_passes import IRLegalization
from numba.np.numpy_support import from_dtype

from .struct import signature_of

_Function = TypeVar("_Function", bound=Callable[..., Any])

# In the order of their declaration.
KERNELS: "list[Any]" = []
# Several threads may call a kernel for the first time at once.
_COMPILING = threading.RLock()


def routine(function: _Function) -> _Function:
    """Declares a function that only compiled code calls."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    dispatcher: Any = numba.njit(nogil=True, pipeline_class=_RoutineCompiler, **options)(function)

    def add_overload(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*arguments: Any, **keywords: Any) -> None:
        raise TypeError(f"{function.__qualname__} is a routine: only compiled code can call it")

    # Python would jump to machine code that is not there.
    dispatcher.add_overload, dispatcher._compile_for_args = add_overload, refuse
    return cast(_Function, _by_types(dispatcher))


def kernel(*arguments: Any, returns: Any = None) -> Callable[[_Function], _Function]:
    """Declares a function that Python calls, for one signature.

    Args:
      arguments: the type of each argument: a `Struct`, `int`, `float`, `bool`, a record's dtype, or a Numba type
        (`vector`).
      returns: the type of what it returns.
    """

    def declare(function: _Function) -> Any:
        dispatcher: Any = numba.njit(cache=True, nogil=True, pipeline_class=_KernelCompiler)(function)
        dispatcher.declared = (arguments, returns)
        dispatcher.address = partial(address_of, dispatcher)

        def compile_declared(*arguments: Any, **keywords: Any) -> Any:
            compile_kernel(dispatcher)
            return dispatcher  # to be called again

        dispatcher._compile_for_args = compile_declared
        KERNELS.append(dispatcher)
        return _by_types(dispatcher)

    return declare


def vector(dtype: Any) -> types.Array:
    """Returns the type of a contiguous one-dimensional array."""
    return types.Array(from_dtype(np.dtype(dtype)), 1, "C")


def compile_kernel(kernel: Any) -> None:
    """Compiles a kernel for its declared signature, or loads it from disk; it then accepts no other."""
    with _COMPILING:
        if not kernel.overloads:
            kernel.compile(signature_of(*kernel.declared))
            kernel.disable_compile()


def is_kept(kernel: Any) -> bool:
    """Returns whether the code of a kernel is loaded, or lies on disk."""
    if kernel.overloads:
        return True
    cache = kernel._cache
    try:
        name = cache._cache_file._load_index().get(
            cache._index_key(signature_of(*kernel.declared), kernel.targetctx.codegen())
        )
        return name is not None and (Path(cache.cache_path) / name).exists()
    except (OSError, EOFError, ValueError):
        return False


def address_of(kernel: Any) -> int:
    """Returns the address at which compiled code calls a kernel (`struct.function`)."""
    found: int | None = getattr(kernel, "found_address", None)
    if found is None:
        compile_kernel(kernel)
        (compiled,) = kernel.overloads.values()
        found = int(compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name))
        kernel.found_address = found
    return found


def _by_types(dispatcher: Any) -> Any:
    """Makes compiled callers ask for the types of arguments alone, not for their literal values."""
    template_of = dispatcher.get_call_template

    def get_call_template(arguments: Any, keywords: Any) -> Any:
        plain = tuple(types.unliteral(argument) for argument in arguments)
        return template_of(plain, {name: types.unliteral(argument) for name, argument in keywords.items()})

    dispatcher.get_call_template = get_call_template
    return dispatcher


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel: that of every routine it needs is linked in, once."""

    def add_linking_library(self, library: Any) -> None:
        for needed in (library, *getattr(library, "routines", ())):
            if needed not in self._linking_libraries:
                super().add_linking_library(needed)


class _RoutineLibrary(_KernelLibrary):
    """The code of a routine, neither optimised nor turned into machine code."""

    @property
    def routines(self) -> list[Any]:
        return self._linking_libraries

    @property
    def codegen(self) -> Any:
        return _NoEnvironment

    def finalize(self) -> None:
        # A kernel links each of its routines itself.
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Returns 0: Python cannot call a routine."""
        return 0


class _NoEnvironment:
    """Stands for a code generator without machine code: no place for a Python environment."""

    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Does nothing."""


class _Prepare(AnalysisPass):
    _library: Any

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        state.library = self._library(state.targetctx.codegen(), state.func_id.func_qualname)
        if self._library is _KernelLibrary:
            state.library.enable_object_caching()
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class _PrepareKernel(_Prepare):
    _name = "prepare_kernel"
    _library = _KernelLibrary


@register_pass(mutates_CFG=False, analysis_only=True)
class _PrepareRoutine(_Prepare):
    _name = "prepare_routine"
    _library = _RoutineLibrary


class _KernelCompiler(CompilerBase):
    _prepare: Any = _PrepareKernel

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(self._prepare, IRLegalization)
        passes.finalize()
        return [passes]


class _RoutineCompiler(_KernelCompiler):
    _prepare = _PrepareRoutine
