"""Reads and merges the sources of a configuration: a file, a mapping that overrides it, and `key=value` texts."""

import json
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import yaml

from anchorbolt.config.declaration import is_password
from anchorbolt.config.masking import secrets_in
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.secret import Secret
from anchorbolt.config.spark_options import SPARK, merged_spark_options
from anchorbolt.errors import ConfigError


def merged(file_values: Mapping[Any, Any], conf: Mapping[Any, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return one flat configuration; the provider's part is a mapping, with every password as a `Secret`."""
    values: dict[str, Any] = {}
    for source in (file_values, conf):
        for key, value in source.items():
            if not isinstance(key, str):
                raise ConfigError(f"the configuration key {key!r} is of type {type(key).__name__}. Use dotted strings.")
            if key == PROVIDER_CONFIG:
                value = _provider_config(value)
            values[key] = merged_spark_options(values.get(key), value) if key == SPARK else value
    for override in overrides:
        key, value = _parse_override(override)
        if key.startswith(f"{PROVIDER_CONFIG}."):
            values[PROVIDER_CONFIG] = _with_inner(values.get(PROVIDER_CONFIG) or {}, key, value)
        else:
            values[key] = value
    return values


def read_file(path: str | PathLike[str]) -> dict[Any, Any]:
    """Read a configuration file: JSON if its name ends in `.json`, otherwise YAML.

    Raises `ConfigError` if it cannot be read or is not a mapping.
    """
    name = fspath(path)
    try:
        values, problem = _parsed(Path(path).read_text(encoding="utf-8"), is_json=name.endswith(".json"))
        problem = problem and f"is not valid: {problem}"
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # contains the file's bytes: the error below must not have it as its context
        problem = "is not UTF-8 text"
    if problem:
        raise ConfigError(f"configuration file {name} {problem}. Fix it, or name another file.")
    if values is not None and not isinstance(values, dict):
        raise ConfigError(
            f"configuration file {name} holds a {type(values).__name__}. Write a mapping, one 'key: value' a line."
        )
    return values or {}


def overridden_key(override: str) -> str:
    """Return the configuration key that a text `key=value` sets, completely or partly."""
    key = override.partition("=")[0].strip()
    return PROVIDER_CONFIG if key.startswith(f"{PROVIDER_CONFIG}.") else key


def hide_passwords(value: Any) -> Any:
    """Return a copy where every string below a password's key, at any depth, is a `Secret`."""
    if isinstance(value, Mapping):
        return {
            key: Secret(item) if is_password(key) and isinstance(item, str) else hide_passwords(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [hide_passwords(item) for item in value]
    return value


def _parse_override(override: str) -> tuple[str, Any]:
    key, equals, text = override.partition("=")
    key = key.strip()
    if not key or not equals:
        raise ConfigError(f"{key!r} is not of the form key=value. Write --set key=value.", key=key or None)
    _refuse_password(key, None)  # before a message can quote the value
    value, problem = _value_of(text)
    if problem:
        raise ConfigError(
            f"the value given for {key} is not valid YAML: {problem}. If it is a text, quote it, as in "
            f"{key}=\"'...'\".",
            key=key,
        )
    if key == PROVIDER_CONFIG:
        value = _provider_config(value)
    _refuse_password(key, value)
    return key, value


def _value_of(text: str) -> tuple[Any, str]:
    """Return the value of a text on a command line, and the problem with the text; empty if there is none.

    A number, true, false, null, a list `[…]`, a mapping `{…}` and a quoted text are read as YAML. Any other text is
    used unchanged: YAML would cut off " #2", and convert 0123, 12:30:45, no and 2024-01-01.
    """
    bare = text.strip()
    begin, end = bare[:1], bare[-1:]
    if not (_PLAIN.fullmatch(bare) or begin in _CLOSING):
        return text, ""
    value, problem = _parsed(bare, loader=_OverrideLoader)
    if problem:
        return (None, problem) if begin in ("[", "{") else (text, "")
    # After a bracket or a quotation mark, a "#" begins a comment in YAML.
    return (value, "") if _CLOSING.get(begin, end) == end else (text, "")


def _refuse_password(key: str, value: Any) -> None:
    """Refuse a password on a command line: every user of the machine can read it."""
    # Of Anchorbolt's keys, only the provider's inner keys have secrets.
    name = key.removeprefix(f"{PROVIDER_CONFIG}.").rpartition(".")[2] if key.startswith(f"{PROVIDER_CONFIG}.") else key
    if is_password(key) or any(secrets_in(value, "" if name.startswith("topology.") else name)):
        raise ConfigError(
            f"{key} holds a password or another secret, and what is given on a command line can be read by every user "
            "of the machine. Put it into the configuration file, or into an environment variable or a file that "
            "passwordEnv or passwordFile names.",
            key=key,
        )


def _provider_config(value: Any) -> Any:
    """Return the provider's configuration as a mapping, with passwords hidden; None if it is null."""
    problem = ""
    if isinstance(value, str):
        value, problem = _parsed(value, is_json=True)
        problem = problem and f"a string that is not valid JSON: {problem}"
    if not problem and value is not None and not isinstance(value, Mapping):
        problem = f"of type {type(value).__name__}"
    if problem:
        raise ConfigError(
            f"{PROVIDER_CONFIG} is {problem}. Write a mapping, or a JSON object in a string.", key=PROVIDER_CONFIG
        )
    return hide_passwords(value)


def _with_inner(config: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = dict(config)
    level, above = changed, PROVIDER_CONFIG
    *parents, last = key.removeprefix(f"{PROVIDER_CONFIG}.").split(".")
    for parent in parents:
        above += f".{parent}"
        below = level.get(parent)
        if below is not None and not isinstance(below, Mapping):
            raise ConfigError(f"{key} cannot be set: {above} is no mapping. Remove it, or set it as a whole.", key=key)
        level[parent] = dict(below or {})
        level = level[parent]
    level[last] = value
    return changed


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping with a repeated key: PyYAML would silently use the last value."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _OverrideLoader(_StrictLoader):
    """Reads values that only YAML 1.1 gives another type as text: 0123, 12:30:45, no, 2024-01-01."""

    yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012 (a class variable of PyYAML's)


_CLOSING = {"[": "]", "{": "}", "'": "'", '"': '"'}
_INT = r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)"
_FLOAT = r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"
_PLAIN = re.compile(rf"{_INT}|{_FLOAT}|(?i:true|false|null)")
for _kind, _pattern in (("int", _INT), ("float", _FLOAT), ("bool", "(?i:true|false)"), ("null", "(?i:null)|")):
    _OverrideLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), None)


def _parsed(text: str, *, is_json: bool = False, loader: type[yaml.SafeLoader] = _StrictLoader) -> tuple[Any, str]:
    """Return the value of a JSON or YAML text, and the problem with the text; empty if there is none.

    The parsers' own errors do not leave this function: they contain the text, which may contain a password.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise json.JSONDecodeError(f"the key {key!r} is there twice", text, max(0, text.rfind(f'"{key}"')))
            values[key] = value
        return values

    try:
        if is_json:
            return json.loads(text, object_pairs_hook=once), ""
        return yaml.load(text, loader), ""  # noqa: S506 (a subclass of SafeLoader)
    except json.JSONDecodeError as error:
        return None, f"{error.msg}, line {error.lineno}, column {error.colno}"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        return None, f"{getattr(error, 'problem', None) or 'unreadable characters'}{place}"
