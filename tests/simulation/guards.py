"""Finds a guard in the syntax tree of a function, and changes it. Layout, comments and quotes do not matter.

In a pattern, `_` stands for any expression, `f(...)` for a call with any arguments, and a block `...` for any block.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class GuardNotFound(AssertionError):
    """The function no longer has what a change refers to, or has it more than once."""


def changed(module: str, function: str, text: str) -> ast.Module:
    """Return a module's syntax tree with one function changed.

    Raises:
        GuardNotFound: The function, or what the change refers to, is not there exactly once.
    """
    tree = ast.parse(source_path(module).read_text())
    name_of_class, _, name = function.rpartition(".")
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name_of_class]
    nodes = ast.walk(classes[0] if classes else tree)
    found = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(found) != 1:
        raise GuardNotFound(f"{module} has {len(found)} functions {function!r}")
    try:
        change(found[0], text)
    except GuardNotFound as error:
        raise GuardNotFound(f"{module}.{function}: {error}") from None
    return ast.fix_missing_locations(tree)


def source_path(module: str) -> Path:
    """Return the file of a module of this checkout."""
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def change(function: ast.AST, text: str) -> None:
    """Change a function as `text` says.

    `pattern -> code` replaces an expression by another, or a statement by others; `pass` removes it.
    `pattern <-> pattern` exchanges two statements.

    Raises:
        GuardNotFound: A pattern does not match exactly one place.
    """
    before, arrow, after = re.split(r"\s(<?->)\s", text)
    if arrow == "<->":
        first, second = _find(function, ast.parse(before).body[0]), _find(function, ast.parse(after).body[0])
        _Replacer({first: second, second: first}).visit(function)
        return
    [old], new = ast.parse(before).body, ast.parse(after).body
    if isinstance(old, ast.Expr) and len(new) == 1 and isinstance(new[0], ast.Expr):
        _Replacer({_find(function, old.value): new[0].value}).visit(function)
    else:
        _Replacer({_find(function, old): new}).visit(function)


def _find(function: ast.AST, pattern: ast.AST) -> ast.AST:
    found = [node for node in ast.walk(function) if matches(pattern, node)]
    if len(found) != 1:
        raise GuardNotFound(f"{ast.unparse(pattern)!r} is there {len(found)} times")
    return found[0]


class _Replacer(ast.NodeTransformer):
    def __init__(self, replacements: Mapping[ast.AST, Any]) -> None:
        self._replacements = replacements

    def visit(self, node: ast.AST) -> Any:
        return self._replacements[node] if node in self._replacements else self.generic_visit(node)


def matches(pattern: object, node: object) -> bool:
    """Compare two syntax trees, or parts of them."""
    if isinstance(pattern, ast.Name) and pattern.id == "_":
        return isinstance(node, ast.expr)
    if isinstance(pattern, list) and isinstance(node, list):
        if len(pattern) == 1 and _is_ellipsis(pattern[0]):
            return True
        return len(pattern) == len(node) and all(map(matches, pattern, node))
    if not isinstance(pattern, ast.AST):
        return pattern == node
    if type(pattern) is not type(node):
        return False
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
