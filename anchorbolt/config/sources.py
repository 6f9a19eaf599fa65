"""Reads and merges the sources of a configuration: a file, a mapping that overrides it, and `key=value` texts."""

import json
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import yaml

from anchorbolt.config.declaration import is_password
from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.config.secret import Secret
from anchorbolt.config.spark_options import SPARK, merged_spark_options
from anchorbolt.errors import ConfigError


def merged(file_values: Mapping[Any, Any], conf: Mapping[Any, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """Return one flat configuration, the provider's as a mapping, every password in that as a `Secret`.

    Raises `ConfigError` if a key is no string, an override is not of the form `key=value`, the provider's configuration
    is no mapping, or an override holds a password.
    """
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
            inner = values.get(PROVIDER_CONFIG)
            values[PROVIDER_CONFIG] = _with_inner(inner or {}, key, value)
        else:
            values[key] = value
    return values


def read_file(path: str | PathLike[str]) -> dict[Any, Any]:
    """Read a configuration file: JSON where its name ends in `.json`, else YAML.

    Raises `ConfigError` if it cannot be read, or holds something else than a mapping.
    """
    name = fspath(path)
    problem, values = "", None
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = _read_json(text) if name.endswith(".json") else _read_yaml(text)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text"
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        problem = f"is not valid: {_where(error)}"
    # Raised out here, because those errors hold the file's text, and that may hold a password.
    if problem:
        raise ConfigError(f"configuration file {name} {problem}. Fix it, or name another file.")
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(
            f"configuration file {name} holds a {type(values).__name__}. Write a mapping, one 'key: value' a line."
        )
    return values


def hide_passwords(value: Any) -> Any:
    """Return a copy in which every string below a password's key, at any depth, is a `Secret`."""
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
    _refuse_password(key, None)  # before anything is said about the value
    value: Any = text
    problem = ""
    if text:  # YAML reads nothing as null, but an empty value is meant to be one
        try:
            value = _read_yaml(text)
        except yaml.YAMLError as error:
            problem = _where(error)
    if problem:
        raise ConfigError(
            f"the value given for {key} is not valid YAML: {problem}. Quote it, as in {key}=\"'...'\".", key=key
        )
    if key == PROVIDER_CONFIG:
        value = _provider_config(value)
    _refuse_password(key, value)
    return key, value


def _refuse_password(key: str, value: Any) -> None:
    """Refuse a password on a command line, which every user of the machine can read."""
    if is_password(key) or _holds_secret(hide_passwords(value)):
        raise ConfigError(
            f"{key} holds a password, and what is given on a command line can be read by every user of the machine. "
            "Put it into an environment variable or a file, and name that by passwordEnv or passwordFile.",
            key=key,
        )


def _holds_secret(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_secret, value.values()))
    return isinstance(value, Secret) or (isinstance(value, list) and any(map(_holds_secret, value)))


def _provider_config(value: Any) -> Any:
    """Return the provider's configuration as a mapping, with passwords hidden, or None where it is null."""
    problem = ""
    if isinstance(value, str):
        try:
            value = _read_json(value)
        except json.JSONDecodeError as error:
            problem = f"a string that is not valid JSON: {_where(error)}"
    if not problem and value is not None and not isinstance(value, Mapping):
        problem = f"of type {type(value).__name__}"
    if problem:
        raise ConfigError(
            f"{PROVIDER_CONFIG} is {problem}. Write a mapping, or a JSON object in a string.", key=PROVIDER_CONFIG
        )
    return hide_passwords(value)


def _with_inner(config: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    changed = dict(config)
    level = changed
    *parents, last = key[len(PROVIDER_CONFIG) + 1 :].split(".")
    for depth, parent in enumerate(parents, start=1):
        below = level.get(parent)
        if below is not None and not isinstance(below, Mapping):
            above = ".".join([PROVIDER_CONFIG, *parents[:depth]])
            raise ConfigError(f"{key} cannot be set: {above} is no mapping. Remove it, or set it as a whole.", key=key)
        level[parent] = dict(below or {})
        level = level[parent]
    level[last] = value
    return changed


class _StrictLoader(yaml.SafeLoader):
    """Refuses a mapping with a key twice, of which PyYAML would silently take the last one."""

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


def _read_yaml(text: str) -> Any:
    return yaml.load(text, _StrictLoader)  # noqa: S506 (a subclass of SafeLoader)


def _read_json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise json.JSONDecodeError(f"the key {key!r} is there twice", text, max(0, text.rfind(f'"{key}"')))
            values[key] = value
        return values

    return json.loads(text, object_pairs_hook=once)


def _where(error: json.JSONDecodeError | yaml.YAMLError) -> str:
    """Say what is wrong and where, without quoting the text."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg}, line {error.lineno}, column {error.colno}"
    mark = getattr(error, "problem_mark", None)
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return f"{getattr(error, 'problem', None) or 'unreadable characters'}{place}"
