"""Declares a setting once, in a settings class: its key, its default and the values that it accepts.

A settings class is a frozen dataclass that extends `Checked`. Its values are checked when an object is created, by the
configuration or by Python code. Executors unpickle these classes, so this imports nothing but the standard library.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, field, fields
from typing import Any, NamedTuple

from anchorbolt.config.secret import Secret
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean, shortened


class Accepted(NamedTuple):
    """The values that a setting accepts; `must_be` completes the sentence "must be …"."""

    fits: Callable[[Any], bool]
    must_be: str
    is_whole: bool = False  # a number such as 30.0 is read as 30, as in Storm


class Setting(NamedTuple):
    """A declared setting."""

    field: str  # the field's name
    key: str  # the key in a configuration
    default: Any  # `dataclasses.MISSING` if it has none
    accepted: Accepted


def setting(accepted: Accepted, default: Any = MISSING, key: str | None = None) -> Any:
    """Return a dataclass field for a setting; pass `key` if its key differs from the field's name.

    The setting accepts None if None is its default.
    """
    return field(default=default, metadata=holds(accepted, key))


def holds(accepted: Accepted, key: str | None = None) -> dict[str, Any]:
    """Return the metadata of a field for a setting, if `setting` cannot create the field.

    Type checkers recognise other arguments of `dataclasses.field`, such as `kw_only`, only in a direct call of it.
    """
    return {"key": key, "accepted": accepted}


class Checked:
    """Base of the settings classes."""

    def __post_init__(self) -> None:
        for each in declared(type(self)):
            check_value(each, getattr(self, each.field), each.key)


def declared(kind: type[Any]) -> Iterator[Setting]:
    """Yield the settings declared by a class."""
    for each in fields(kind):
        if accepted := each.metadata.get("accepted"):
            yield Setting(each.name, each.metadata["key"] or each.name, each.default, accepted)


def by_key(*kinds: type[Any]) -> dict[str, Setting]:
    """Return the settings declared by these classes, by key."""
    return {each.key: each for kind in kinds for each in declared(kind)}


def check_value(declaration: Setting, value: Any, key: str) -> None:
    """Raise `ConfigError` if a value does not fit. The message contains neither a password nor a mapping."""
    if (value is None and declaration.default is None) or declaration.accepted.fits(value):
        return
    # A string with "@" may be a URL with a password.
    hidden = is_password(key) or (isinstance(value, str) and "@" in value)
    is_scalar = value is None or isinstance(value, (bool, int, float, str))
    shown = shortened(value, 100) if is_scalar and not hidden else f"of type {type(value).__name__}"
    raise ConfigError(f"{key} is {shown}, but must be {declaration.accepted.must_be}.", key=key)


def read_values(known: Mapping[str, Setting], given: Any, key: str = "") -> dict[str, Any]:
    """Return the checked values of a mapping by field. A value of None means the default and is left out.

    Raises `ConfigError` if the value of `key` is not a mapping, one of its keys is unknown, or a value does not fit.
    """
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{key} is of type {type(given).__name__}, but must be a mapping with the keys {', '.join(known)}.", key=key
        )
    prefix = f"{key}." if key else ""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in known:
            raise unknown_key(
                f"{prefix}{name}", [prefix + each for each in known], f"Known here are: {', '.join(known)}."
            )
        if known[name].accepted.is_whole and type(value) is float and value.is_integer():
            value = int(value)
        check_value(known[name], value, prefix + name)
        found[known[name].field] = value
    return found


def unknown_key(key: str, known: list[str], advice: str) -> ConfigError:
    """Return the error for an unknown key; it names the most similar known key."""
    return ConfigError(f"unknown configuration key {key!r}.{did_you_mean(key, known)} {advice}", key=key)


def is_password(key: object) -> bool:
    return isinstance(key, str) and key.lower().endswith("password")


def whole(low: int, high: int | None = None, *, unit: str | None = None, what: str = "a whole number") -> Accepted:
    """Accept whole numbers from `low` to `high`."""
    bounds = f"at least {low}" if high is None else f"from {low} to {high}"
    of_unit = f" of {unit}" if unit else ""
    return Accepted(
        lambda value: type(value) is int and value >= low and (high is None or value <= high),
        f"{what}{of_unit}, {bounds}",
        is_whole=True,
    )


def text(must_be: str, pattern: str = "(?s).+") -> Accepted:
    """Accept strings that match a pattern completely; by default all except the empty string."""
    matches = re.compile(pattern).fullmatch
    return Accepted(lambda value: isinstance(value, str) and matches(value) is not None, must_be)


SHARE = Accepted(
    lambda value: type(value) in (int, float) and 0 < value <= 10, "a number above 0, at most 10, such as 0.9"
)
SECONDS = Accepted(
    lambda value: type(value) in (int, float) and 0 < value <= 1e11, "a number of seconds above 0, at most 1e11"
)
DESTINATION = Accepted(
    lambda value: callable(value) or (isinstance(value, str) and value != ""),
    "a directory, redis-stream:KEY, or a function",
)
FLAG = Accepted(lambda value: type(value) is bool, "true or false")
PASSWORD = Accepted(lambda value: isinstance(value, Secret), "a string; put it in quotes if it looks like a number")
