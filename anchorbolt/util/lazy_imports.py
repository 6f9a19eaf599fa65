"""Names that a package imports when they are first used, because not everybody needs what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__`.

    Args:
        package: Name of the package.
        places: By name, the module that has it.
    """

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
