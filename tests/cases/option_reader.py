"""Which options of which command the tests give, read from their sources."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

# What a command must refuse does not show what its options do.
_REFUSED = "error_of"


def options_given(files: Iterable[Path], commands: Iterable[str]) -> set[tuple[str, str]]:
    """Returns every command with every option that some test gives it.

    An option belongs to the last command that is named before it, in the order in which the strings reach the call:
    names of variables and of functions of the module, and of functions in other modules that are no tests, stand for
    the strings in them.

    Args:
      files: modules of tests and of their helpers.
      commands: names of commands.
    """
    known, found = frozenset(commands), set()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    helpers = _Scope(None, {})
    for path, tree in trees.items():
        if not path.name.startswith("test_"):
            helpers.meanings |= _Scope.of_module(helpers, tree).meanings
    for path, tree in trees.items():
        if not path.name.startswith("test_"):
            continue
        module = _Scope.of_module(helpers, tree)
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                continue
            command = None
            for text in module.strings_of(node.name):
                if text in known:
                    command = text
                elif text.startswith("-") and command is not None:
                    found.add((command, text))
    return found


class _Scope:
    """Names of a module or of a function, and the strings that each stands for."""

    def __init__(self, outer: "_Scope | None", meanings: dict[str, tuple["_Scope", ast.AST]]) -> None:
        self.outer, self.meanings = outer, meanings
        self._strings: dict[str, tuple[str, ...]] = {}

    @classmethod
    def of_module(cls, outer: "_Scope", tree: ast.Module) -> "_Scope":
        scope = cls(outer, {})
        others = [node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
        scope.meanings = {name: (scope, value) for name, value in _assigned(others)}
        scope.meanings |= {node.name: (scope, node) for node in tree.body if isinstance(node, ast.FunctionDef)}
        return scope

    def strings_of(self, name: str) -> tuple[str, ...]:
        """Returns what a name stands for, in order; nothing for a name that is not known, and within itself."""
        if name not in self.meanings:
            return () if self.outer is None else self.outer.strings_of(name)
        if name not in self._strings:
            self._strings[name] = ()
            scope, node = self.meanings[name]
            self._strings[name] = tuple(scope.strings(node))
        return self._strings[name]

    def strings(self, node: ast.AST) -> Iterator[str]:
        """Yields the strings of a piece of code, in order."""
        if isinstance(node, ast.FunctionDef):
            inner = _Scope(self, {})
            inner.meanings = {name: (self, ast.Tuple([])) for name in _arguments(node)}
            inner.meanings |= {name: (self, value) for name, value in _parametrized(node)}
            inner.meanings |= {name: (inner, value) for name, value in _assigned(node.body)}
            for statement in node.body:
                yield from inner.strings(statement)
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield node.value
        elif isinstance(node, ast.Name):
            yield from self.strings_of(node.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _REFUSED:
            return
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return  # a path, whose folders may be called as commands are
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            # What is called counts here, what is only named where it is used.
            for child in ast.walk(node):
                if isinstance(child, ast.Call):
                    yield from self.strings(child)
                    return
        elif isinstance(node, ast.For):
            for child in (*node.body, *node.orelse):
                yield from self.strings(child)
        else:
            for child in ast.iter_child_nodes(node):
                yield from self.strings(child)


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    """Yields the names that statements bind, and what stands for them; of several values all."""
    values: dict[str, list[ast.expr]] = {}
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
                pairs = [(node.target, node.value)]
            elif isinstance(node, ast.For | ast.comprehension):
                pairs = [(node.target, node.iter)]
            else:
                continue
            for target, value in pairs:
                for name in ast.walk(target):
                    if isinstance(name, ast.Name):
                        values.setdefault(name.id, []).append(value)
    yield from ((name, ast.Tuple(each)) for name, each in values.items())


def _arguments(function: ast.FunctionDef) -> list[str]:
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    more = [each for each in (function.args.vararg, function.args.kwarg) if each is not None]
    return [each.arg for each in (*every, *more)]


def _parametrized(function: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Yields the parameters that `pytest.mark.parametrize` gives, and all values."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and len(decorator.args) == 2:
            for node in ast.walk(decorator.args[0]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from ((name.strip(), decorator.args[1]) for name in node.value.split(","))
