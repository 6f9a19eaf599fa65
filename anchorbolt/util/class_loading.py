"""Imports a class that the configuration names."""

from importlib import import_module
from typing import Any

from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean


def load_class(dotted: str, base: type, key: str) -> type[Any]:
    """Import the class `dotted`, a subclass of `base`; `key` is the configuration key that names it, for messages.

    Raises:
        ConfigError: The module cannot be imported, or has no such subclass of `base`.
    """
    module_name, _, class_name = dotted.rpartition(".")
    try:
        module = import_module(module_name)
    except Exception as error:
        raise ConfigError(
            f"{key} is {dotted}, but {module_name} cannot be imported: {type(error).__name__}: {error}. Check "
            "the name, and that the module is on Python's path.",
            key=key,
        ) from error
    kind = getattr(module, class_name, None)
    if kind is None:
        hint = did_you_mean(class_name, dir(module))
        raise ConfigError(f"{key} is {dotted}, but {module_name} has no {class_name!r}.{hint}", key=key)
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise ConfigError(
            f"{key} is {dotted}, which is not a subclass of {base.__module__}.{base.__name__}. Name a subclass.",
            key=key,
        )
    return kind
