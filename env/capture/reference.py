"""Checks `PKG.MODULE:FUNCTION`, importing nothing, before an environment is made and before any compilation."""

import ast
import os
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from ..errors import UserError
from ..suggestion import nearest


def split_reference(reference: str) -> tuple[str, str]:
    """Returns module and function of `PKG.MODULE:FUNCTION`. Raises UserError if it is not one."""
    module, _, function = reference.partition(":")
    if not module or not function:
        raise UserError(f"{reference!r} is no PKG.MODULE:FUNCTION, e.g. my_model:training_step")
    if module.endswith(".py"):
        path = Path(module)
        if path.is_absolute() or ".." in path.parts:
            raise UserError(
                f"{reference!r} names a file; go to {path.parent} and name its module: {path.stem}:{function}"
            )
        named = ".".join(path.with_suffix("").parts)
        raise UserError(f"{reference!r} names a file; name its module: {named}:{function}")
    return module, function


def check_reference(reference: str, folder: Path | None = None) -> None:
    """Checks that the module exists, is Python, and seems to define the function. Runs none of its code.

    It searches `folder` and `PYTHONPATH`: what the managed environment sees of the user's modules.

    Args:
      reference: `PKG.MODULE:FUNCTION`.
      folder: searched first; None for the current folder.

    Raises:
      UserError: the message names the module or function, the places that were searched, and the nearest name.
    """
    module, function = split_reference(reference)
    path = os.environ.get("PYTHONPATH", "")
    folders = [str((folder or Path.cwd()).resolve()), *(entry for entry in path.split(os.pathsep) if entry)]
    source = _source_of(module, folders)
    if source is None or source.suffix != ".py":
        return
    try:
        tree = ast.parse(source.read_bytes(), str(source))
    except (SyntaxError, ValueError) as error:
        at = f"{source}:{error.lineno}" if isinstance(error, SyntaxError) else str(source)
        raise UserError(f"{at}: {type(error).__name__}: {getattr(error, 'msg', error)}") from error
    names = set(_names(tree))
    if function not in names and not names & {"*", "__getattr__"}:
        near = nearest(function, sorted(name for name in names if not name.startswith("_")))
        mend = f"did you mean {' or '.join(near)}?" if near else "give PKG.MODULE:FUNCTION"
        raise UserError(f"{source}: defines no function {function!r}; {mend}")


def _source_of(module: str, folders: Sequence[str]) -> Path | None:
    """Returns the file of a module; None for a package without one. Raises UserError if there is no such module."""
    search: Sequence[str] | None = folders
    spec = None
    parts = module.split(".")
    for number in range(len(parts)):
        name = ".".join(parts[: number + 1])
        spec = PathFinder.find_spec(name, search)
        if spec is None:
            raise UserError(
                f"no module {name!r} in {', '.join(folders)}; go to the folder that it is in, or give --python an "
                "interpreter that has it installed"
            )
        search = spec.submodule_search_locations
        if search is None and number + 1 < len(parts):
            raise UserError(f"{spec.origin}: is no package, so that it has no module {module!r}")
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _names(tree: ast.AST) -> Iterator[str]:
    """Yields the names that a module may define at its top level, `*` for an import of everything."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        yield from _names(node)
