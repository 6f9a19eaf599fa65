"""Importing by name: a class from the configuration, and names that a package imports only on first use."""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean


def lazy_names(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`; `places` maps each name to its module.

    For names whose dependencies not every user has installed.
    """

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(places[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get


def is_installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it."""
    try:
        return find_spec(package) is not None
    except ValueError:  # Python raises this if the import is forbidden
        return False


def load_class(dotted: str, base: type, key: str) -> type[Any]:
    """Import the class `dotted`, a subclass of `base`; `key` is the configuration key that names it, for messages.

    Raises `ConfigError` if the module cannot be imported, or has no such subclass of `base`.
    """
    module_name, _, class_name = dotted.rpartition(".")
    kind = _attribute(module_name, class_name, dotted, key)
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise ConfigError(
            f"{key} is {dotted}, which is not a subclass of {base.__module__}.{base.__name__}. Name a subclass.",
            key=key,
        )
    return kind


def load_function(place: str, key: str) -> Callable[..., Any]:
    """Import the function of a `place`, "module:function"; `key` names where it comes from, for messages.

    Raises `ConfigError` if it is not of this form, cannot be imported, or is not a function.
    """
    module_name, _, name = place.partition(":")
    if not (module_name and name):
        raise ConfigError(f"{key} is {place!r}, which is not of the form module:function.", key=key)
    function = _attribute(module_name, name, place, key)
    if not callable(function):
        raise ConfigError(f"{key} is {place}, which is not a function but {type(function).__name__}.", key=key)
    return function  # type: ignore[no-any-return]


def _attribute(module_name: str, name: str, place: str, key: str) -> Any:
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{key} is {place}, but {module_name} cannot be imported: {type(error).__name__}: {error}. Check "
            "the name, and that the module is on Python's path.",
            key=key,
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise ConfigError(
            f"{key} is {place}, but {module_name} has no {name!r}.{did_you_mean(name, dir(module))}", key=key
        )
    return found
