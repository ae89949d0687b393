"""Reads from source, without running it, which files of a package import which others, and which libraries.

Every way to import counts: relative and absolute statements, at the top of a file, inside a function and under
`TYPE_CHECKING`; `import_module("name")`; and any string that is the dotted name of a module, for such a string ends up
in `import_module` or in `python -m`.
"""

import ast
import graphlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# The target of `import_module(variable)`.
DYNAMIC = "?"
_BY_NAME = frozenset({"import_module", "__import__", "find_spec", "run_module"})


@dataclass(frozen=True)
class Import:
    """One import: line `line` of `file` imports `target`.

    Attributes:
      file: The importing file, as a path from the root of the package, e.g. `env/game/rules.py`.
      line: Its line, from 1.
      target: The imported file of the package, as a path from its root (a folder's is its `__init__.py`); or the dotted
        name of a library's module; or `DYNAMIC`.
      inside: Whether `target` belongs to the package.
    """

    file: str
    line: int
    target: str
    inside: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


@dataclass(frozen=True)
class Package:
    """The source files of one package.

    Attributes:
      name: The name under which it is imported, e.g. `mallocmuzero`.
      root: The folder that it is imported from.
      files: Its Python files, as paths from `root`.
    """

    name: str
    root: Path
    files: frozenset[str]

    def imports(self) -> list[Import]:
        """Returns every import in the package, by file and line, without repetitions."""
        return sorted(
            {found for file in self.files for found in self._imports_of(file)},
            key=lambda found: (found.file, found.line, found.target),
        )

    def unknown_modules(self) -> list[str]:
        """Returns the strings that read like a module of this package and name none, with file and line."""
        unknown = []
        for file in sorted(self.files):
            for line, text in self._module_strings(self._tree(file)):
                if self._resolved(text)[1] != text:
                    unknown.append(f"{file}:{line} names {text}")
        return unknown

    def _imports_of(self, file: str) -> Iterator[Import]:
        tree = self._tree(file)
        here = _package_of(self.name, file)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield self._import(file, node.lineno, alias.name)
            elif isinstance(node, ast.ImportFrom):
                base = ".".join([*here[: len(here) - node.level + 1], node.module or ""]).strip(".")
                for alias in node.names:
                    yield self._import(file, node.lineno, f"{base if node.level else node.module}.{alias.name}")
            elif isinstance(node, ast.Call) and _name_of(node.func) in _BY_NAME:
                name = _literal_start(node.args[0]) if node.args else None
                if name is None:
                    yield Import(file, node.lineno, DYNAMIC, inside=False)
                else:
                    dots = len(name) - len(name.lstrip("."))
                    base = ".".join(here[: len(here) - dots + 1]) + "." if dots else ""
                    yield self._import(file, node.lineno, (base + name.lstrip(".")).rstrip("."))
        for line, text in self._module_strings(tree):
            yield self._import(file, line, text)

    def _import(self, file: str, line: int, module: str) -> Import:
        if module.split(".")[0] != self.name:
            return Import(file, line, module, inside=False)
        return Import(file, line, self._resolved(module)[0], inside=True)

    def _resolved(self, module: str) -> tuple[str, str]:
        """Returns the file and the name of the longest start of `module` that is a module: the rest is a name in it."""
        parts = module.split(".")
        for length in range(len(parts), 1, -1):
            path = "/".join(parts[1:length])
            for file in (f"{path}.py", f"{path}/__init__.py"):
                if file in self.files:
                    return file, ".".join(parts[:length])
        return "__init__.py", self.name

    def _module_strings(self, tree: ast.AST) -> Iterator[tuple[int, str]]:
        dotted = re.compile(rf"{self.name}(\.[A-Za-z_]\w*)+")
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and dotted.fullmatch(node.value):
                yield node.lineno, node.value

    def _tree(self, file: str) -> ast.Module:
        return ast.parse((self.root / file).read_text(encoding="utf-8"), file)


def read_package(root: Path, name: str, folders: Iterable[str] | None = None) -> Package:
    """Returns the package `name` at `root`: the files right there, and those below `folders` (all of them if None)."""
    paths = set(root.glob("*.py"))
    for folder in (
        [path for path in root.iterdir() if path.is_dir()] if folders is None else map(root.joinpath, folders)
    ):
        paths |= set(folder.rglob("*.py"))
    return Package(name, root, frozenset(path.relative_to(root).as_posix() for path in paths))


def private_imports(root: Path, package: str) -> list[str]:
    """Returns the private names of `package` that files below `root` import, with file and line."""
    found = []
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
                names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                private = [name for name in names if name.startswith("_") and not name.endswith("__")]
                found += [f"{file.relative_to(root).as_posix()}:{node.lineno} imports {name}" for name in private]
    return found


def within(file: str, place: str) -> bool:
    """Returns whether `file` is `place`, a file (with or without `.py`), or lies in `place`, a folder."""
    return file in (place, f"{place}.py") or file.startswith(f"{place}/")


def file_graph(imports: Iterable[Import]) -> dict[str, set[str]]:
    """Returns which files of the package each file imports."""
    graph: dict[str, set[str]] = {}
    for found in imports:
        if found.inside and found.target != found.file:
            graph.setdefault(found.file, set()).add(found.target)
    return graph


def folder_graph(imports: Iterable[Import]) -> dict[str, set[str]]:
    """Returns which folders each folder imports from; the root is `.`.

    An `__init__.py`, and the root's `__main__.py`, may offer what its own sub-folders define: these imports are left
    out.
    """
    graph: dict[str, set[str]] = {}
    for file, targets in file_graph(imports).items():
        folder, name = Path(file).parent.as_posix(), Path(file).name
        for target in targets:
            other = Path(target).parent.as_posix()
            offers = name == "__init__.py" or (folder == "." and name == "__main__.py")
            offered = offers and (folder == "." or within(target, folder))
            if other != folder and not offered:
                graph.setdefault(folder, set()).add(other)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[str]:
    """Returns circles of the graph, as `a > b > a`, until none is left when one arrow of each is taken away."""
    left = {node: sorted(targets) for node, targets in sorted(graph.items())}
    found = []
    while True:
        try:
            graphlib.TopologicalSorter(left).prepare()
        except graphlib.CycleError as error:
            # Each node of the list is imported by the next.
            circle = list(reversed(error.args[1]))
            left[circle[0]].remove(circle[1])
            found.append(" > ".join(circle))
        else:
            return found


def _package_of(name: str, file: str) -> list[str]:
    """Returns the parts of the package that relative imports in `file` start from."""
    return [name, *Path(file).parent.parts]


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _literal_start(argument: ast.expr) -> str | None:
    """Returns the text of a literal; of an f-string, the whole names that it begins with; None of anything else."""
    if isinstance(argument, ast.JoinedStr) and argument.values:
        first = _literal_start(argument.values[0])
        return None if first is None else first[: first.rfind(".") + 1] or None
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else None
