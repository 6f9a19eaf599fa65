"""Names that a package imports on first use, because not every user has their dependencies installed."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`; `places` maps each name to its module."""

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except ValueError:  # Python's way to say that its import is forbidden
        return False
