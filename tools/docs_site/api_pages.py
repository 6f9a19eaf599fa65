"""The pages of the API reference: one for each public module, found without importing it."""

import ast
from pathlib import Path


def public_modules(root: Path) -> list[str]:
    """Return the names of all modules of `anchorbolt` with an `__all__`: these, and no others, are public.

    `tests/architecture/test_public_names.py` checks that internal modules have none.
    """
    return sorted(
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for path in (root / "anchorbolt").rglob("*.py")
        if _is_public(path.read_text(encoding="utf-8"))
    )


def page_of(module: str) -> str:
    """Return the text of a module's page: mkdocstrings replaces the last line by the docstrings."""
    return f"# {module}\n\n::: {module}\n"


def _is_public(source: str) -> bool:
    return "__all__" in source and any(
        isinstance(target, ast.Name) and target.id == "__all__"
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    )
