"""Reads which module of a package imports what, from the source text; never imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class When(Enum):
    """When an import is carried out."""

    ON_IMPORT = "on import"
    IN_CALL = "in a call"
    FOR_TYPES = "for types only"


@dataclass(frozen=True)
class Import:
    """One import: `importer` and `imported` are dotted module names, `imported` as far as it is a known module."""

    importer: str
    imported: str
    line: int
    when: When

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported} (line {self.line}, {self.when.value})"


def read_imports(root: Path, package: str) -> list[Import]:
    """Return all imports of a package: of everything below `root / package`.

    A module imports the package it is in, too (as line 0), for that is what Python does first.
    """
    files = sorted((root / package).rglob("*.py"))
    modules = {_module_name(root, path): path for path in files}
    return [
        imported
        for module, path in modules.items()
        for imported in _Reader(module, path.name == "__init__.py", set(modules)).read(path)
    ]


def parents(module: str) -> Iterator[str]:
    """Return the packages of a module, outermost first: importing it imports them."""
    parts = module.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class _Reader(ast.NodeVisitor):
    def __init__(self, module: str, is_package: bool, modules: set[str]) -> None:
        self._module = module
        self._package = module if is_package else module.rpartition(".")[0]
        self._modules = modules
        self._when = When.ON_IMPORT
        self._found: list[Import] = []

    def read(self, path: Path) -> list[Import]:
        outer = self._module.rpartition(".")[0]
        if outer:
            self._add(outer, 0)
        self.visit(ast.parse(path.read_text(), str(path)))
        return self._found

    def visit_Import(self, node: ast.Import) -> None:
        for name in node.names:
            self._add(name.name, node.lineno)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            outer = self._package.split(".")[: len(self._package.split(".")) - node.level + 1]
            base = ".".join([*outer, base] if base else outer)
        for name in node.names:
            # `from package import module` imports the module, `from module import name` what it is taken from.
            module = f"{base}.{name.name}"
            self._add(module if module in self._modules else base, node.lineno)

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if function in {"import_module", "__import__"} and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                self._add(name.value, node.lineno)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        names = {child.id for child in ast.walk(node.test) if isinstance(child, ast.Name)}
        names |= {child.attr for child in ast.walk(node.test) if isinstance(child, ast.Attribute)}
        if "TYPE_CHECKING" not in names or isinstance(node.test, ast.UnaryOp):
            self.generic_visit(node)
            return
        self._visit_during(When.FOR_TYPES, node.body)
        for child in node.orelse:
            self.visit(child)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        body = node.body if isinstance(node.body, list) else [node.body]
        self._visit_during(When.IN_CALL, body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 (the names are ast's)
    visit_Lambda = visit_FunctionDef  # noqa: N815

    def _visit_during(self, when: When, body: list[ast.stmt] | list[ast.expr]) -> None:
        outside = self._when
        self._when = when if outside is When.ON_IMPORT else outside
        for child in body:
            self.visit(child)
        self._when = outside

    def _add(self, imported: str, line: int) -> None:
        self._found.append(Import(self._module, imported, line, self._when))
