"""Numba's `njit` without a compilation for each literal argument.

Numba compiles a function anew for each literal integer and boolean that compiled code passes to it, and for the literal
that a loop variable starts from: `place(buffer, 0)` and `place(buffer, retry)` are two compilations of `place`. Here
arguments count by their types alone. XLA's algorithm uses it; the game does not, since its plans of moves gain more
from constants than their compilation costs (docs/decisions/0017-literals.md).
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import types

_Function = TypeVar("_Function", bound=Callable[..., Any])


def njit(**options: Any) -> Callable[[_Function], _Function]:
    """Returns `numba.njit(**options)`; functions that it compiles are compiled once for each types of arguments."""

    def compile_by_types(function: _Function) -> Any:
        dispatcher = numba.njit(**options)(function)
        template_of = dispatcher.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            plain = tuple(types.unliteral(argument) for argument in args)
            return template_of(plain, {name: types.unliteral(argument) for name, argument in kws.items()})

        dispatcher.get_call_template = get_call_template
        return dispatcher

    return compile_by_types
