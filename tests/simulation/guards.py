"""Finds a guard in the syntax tree of a function, and changes it. Layout, comments and quotes do not matter.

In a pattern, `_` stands for any expression, `f(...)` for a call with any arguments, and a block `...` for any block.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


class GuardNotFound(AssertionError):
    """The function no longer has what a change refers to, or has it more than once."""


@dataclass(frozen=True)
class Expression:
    """Replaces an expression."""

    old: str
    new: str

    def apply(self, function: ast.AST) -> None:
        """Change the function. Raises `GuardNotFound`."""
        pattern = ast.parse(self.old, mode="eval").body
        found = [place for place in _places(function) if matches(pattern, place.node)]
        _the_only(found, self.old).put(ast.parse(self.new, mode="eval").body)


@dataclass(frozen=True)
class Statement:
    """Replaces a statement by others; `pass` removes it."""

    old: str
    new: str = "pass"

    def apply(self, function: ast.AST) -> None:
        """Change the function. Raises `GuardNotFound`."""
        block, index = _statement(function, self.old)
        block[index : index + 1] = ast.parse(self.new).body


@dataclass(frozen=True)
class Swap:
    """Exchanges two statements of a function."""

    first: str
    second: str

    def apply(self, function: ast.AST) -> None:
        """Change the function. Raises `GuardNotFound`."""
        one, i = _statement(function, self.first)
        other, j = _statement(function, self.second)
        one[i], other[j] = other[j], one[i]


Change = Expression | Statement | Swap


def never(condition: str) -> Expression:
    """Make a condition false."""
    return Expression(condition, "False")


def always(condition: str) -> Expression:
    """Make a condition true."""
    return Expression(condition, "True")


def changed(module: str, function: str, changes: tuple[Change, ...]) -> ast.Module:
    """Return a module's syntax tree with changes in one function, named `function` or `Class.method`.

    Raises:
        GuardNotFound: The function, or what a change refers to, is not there exactly once.
    """
    tree = ast.parse(source_path(module).read_text())
    found = [node for name, node in _functions(tree, "") if f".{name}".endswith(f".{function}")]
    if len(found) != 1:
        raise GuardNotFound(f"{module} has {len(found)} functions {function!r}")
    for change in changes:
        try:
            change.apply(found[0])
        except GuardNotFound as error:
            raise GuardNotFound(f"{module}.{function}: {error}") from None
    return ast.fix_missing_locations(tree)


def source_path(module: str) -> Path:
    """Return the file of a module of this checkout."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def matches(pattern: object, node: object) -> bool:
    """Compare two syntax trees, or parts of them."""
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if isinstance(pattern, list):
        if not isinstance(node, list):
            return False
        if len(pattern) == 1 and _is_ellipsis(pattern[0]):
            return True
        return len(pattern) == len(node) and all(map(matches, pattern, node))
    if not isinstance(pattern, ast.AST):
        return pattern == node
    if type(pattern) is not type(node):
        return False
    assert isinstance(node, ast.AST)
    fields = pattern._fields
    if isinstance(pattern, ast.Call) and len(pattern.args) == 1 and _is_ellipsis(pattern.args[0]):
        fields = ("func",)
    if isinstance(pattern, ast.If) and not pattern.orelse:
        fields = ("test", "body")
    return all(matches(getattr(pattern, name, None), getattr(node, name, None)) for name in fields)


def _is_ellipsis(node: object) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


@dataclass(frozen=True)
class _Place:
    """Where an expression is: a field of its parent, or an item of a list there."""

    parent: ast.AST
    name: str
    index: int | None
    node: ast.expr

    def put(self, new: ast.expr) -> None:
        if self.index is None:
            setattr(self.parent, self.name, new)
        else:
            getattr(self.parent, self.name)[self.index] = new


def _places(function: ast.AST) -> Iterator[_Place]:
    for parent in ast.walk(function):
        for name, value in ast.iter_fields(parent):
            if isinstance(value, ast.expr):
                yield _Place(parent, name, None, value)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        yield _Place(parent, name, index, item)


def _statement(function: ast.AST, old: str) -> tuple[list[ast.stmt], int]:
    (pattern,) = ast.parse(old).body
    blocks = [
        value
        for node in ast.walk(function)
        for _, value in ast.iter_fields(node)
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt)
    ]
    found = [(block, index) for block in blocks for index, statement in enumerate(block) if matches(pattern, statement)]
    return _the_only(found, old)


def _the_only(found: list[T], old: str) -> T:
    if len(found) != 1:
        raise GuardNotFound(f"{old!r} is there {len(found)} times")
    return found[0]


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            name = f"{prefix}{child.name}"
            if isinstance(child, ast.FunctionDef):
                yield name, child
            yield from _functions(child, f"{name}.")
