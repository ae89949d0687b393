"""A hash of the code that a module depends on: of itself and all modules of this project that it imports, at whatever
depth. Comments, docstrings and layout do not count, nor does the version of Python."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = "mallocmuzero"
ROOT = Path(__file__).parents[2]
# Imported along, but of no effect on a mapping: the table of solvers, names of workloads.
IDLE = frozenset(("env.picture", "actors.solvers.solve", "env.workloads", "env.cache", "env.durable", "version"))
# What a learning agent sees is of no effect on a solver.
_OF_NO_SOLVER = IDLE | {"env.observation"}


def source_hash(*modules: str, idle: frozenset[str] = _OF_NO_SOLVER) -> str:
    """Returns the hash (12 hex digits) of modules of the package, by their dotted names, and of all that they import,
    but not of modules in `idle`."""
    digest = hashlib.sha256()
    for name in sorted(set().union(*(dependencies(module, idle) for module in modules))):
        digest.update(f"{name}\n{_code_of(name)}\n".encode())
    return digest.hexdigest()[:12]


def dependencies(module: str, idle: frozenset[str] = _OF_NO_SOLVER) -> set[str]:
    """Returns the dotted names, without the package's, of a module and all that it imports from the package."""
    found: set[str] = set()
    waiting = [module.removeprefix(PACKAGE + ".")]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [other for other in _imports(name) if other not in idle]
    return found


def _path(name: str) -> Path | None:
    """Returns the file of a dotted name, or None if it is no module."""
    place = ROOT.joinpath(*name.split("."))
    for path in (place.with_suffix(".py"), place / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache
def _imports(name: str) -> tuple[str, ...]:
    path = _path(name)
    assert path is not None
    folder = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            if node.level:
                base = folder[: len(folder) - node.level + 1] + (node.module or "").split(".")
            elif (node.module or "").split(".")[0] == PACKAGE:
                base = (node.module or "").split(".")[1:]
            else:
                continue
            base = [part for part in base if part]
            # `from . import x`: a module; `from .x import y`: y may be one.
            found += [".".join([*base, alias.name]) for alias in node.names]
            found.append(".".join(base))
        elif isinstance(node, ast.Import):
            found += [alias.name[len(PACKAGE) + 1 :] for alias in node.names if alias.name.startswith(PACKAGE + ".")]
    return tuple(other for other in found if other and _path(other) is not None)


@cache
def _code_of(name: str) -> str:
    path = _path(name)
    assert path is not None
    return hashlib.sha256("".join(_walk(ast.parse(path.read_text(encoding="utf-8")))).encode()).hexdigest()


def _walk(node: Any) -> Iterator[str]:
    """Yields the tree in words that no version of Python changes: what is empty is left out, and docstrings are."""
    if isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for field, value in ast.iter_fields(node):
            if field == "body" and isinstance(value, list):
                value = [statement for statement in value if not _is_docstring(statement)]
            if field not in ("kind", "type_comment", "type_ignores", "type_params") and value not in (None, []):
                yield f" {field}="
                yield from _walk(value)
        yield ")"
    elif isinstance(node, list):
        for item in node:
            yield from _walk(item)
    else:
        yield repr(node)


def _is_docstring(statement: Any) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
