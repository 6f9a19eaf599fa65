"""Refuses configuration that is wrong: unknown keys, with the nearest known one, and values that do not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from anchorbolt.config.keys import TopologyConfig
from anchorbolt.config.provider_keys import (
    PROVIDERS,
    STORM_PROVIDERS,
    HBaseThriftConfig,
    JedisClusterConfig,
    JedisPoolConfig,
    ProviderConfig,
    TlsConfig,
)
from anchorbolt.config.settings import PROVIDER_CONFIG
from anchorbolt.config.sources import is_password
from anchorbolt.config.storm_keys import STORM_KEYS
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean, shortened

_OURS = tuple(field.alias for field in TopologyConfig.model_fields.values() if field.alias)
_PREFIXES = ("topology", "storm", "anchorbolt")
_INNER_MODELS: dict[str, type[BaseModel]] = {
    PROVIDER_CONFIG: ProviderConfig,
    f"{PROVIDER_CONFIG}.jedisPoolConfig": JedisPoolConfig,
    f"{PROVIDER_CONFIG}.jedisPoolConfig.tls": TlsConfig,
    f"{PROVIDER_CONFIG}.jedisClusterConfig": JedisClusterConfig,
    f"{PROVIDER_CONFIG}.jedisClusterConfig.tls": TlsConfig,
    f"{PROVIDER_CONFIG}.thriftConfig": HBaseThriftConfig,
    f"{PROVIDER_CONFIG}.thriftConfig.tls": TlsConfig,
}
_M = TypeVar("_M", bound=BaseModel)
_SASL = ("sasl", "kerberos", "keytab", "principal")
_NO_SASL = (
    "SASL and Kerberos are not supported: let the Thrift server log in to HBase, and secure the way to it by "
    "thriftConfig.tls and the network."
)
_MISSPELT = 0.9
"""How alike a key of the author's own and a known one may not be, as `difflib` measures it."""


def check_keys(keys: Iterable[str]) -> None:
    """Refuse unknown keys below the framework's prefixes; any others are the job author's own.

    Raises:
        ConfigError: A key is unknown.
    """
    for key in keys:
        prefix, dot, _ = key.partition(".")
        if key in _OURS or key in STORM_KEYS:
            continue
        if prefix not in _PREFIXES:
            if dot and (nearest := did_you_mean(key.lower(), [*_OURS, *STORM_KEYS], _MISSPELT)):
                raise ConfigError(
                    f"the key {key!r} is not known, and too near to one that is.{nearest} If it is a key of your own, "
                    "name it otherwise.",
                    key=key,
                )
            continue
        if not dot:
            raise ConfigError(
                f"the key {key!r} is not dotted. Write keys in full, as Storm does: 'topology.state.provider: redis', "
                "not nested.",
                key=key,
            )
        if key == "topology.name":
            raise ConfigError(
                "topology.name cannot be set: a topology is named by create_topology(name). Remove the key.",
                key=key,
            )
        raise _unknown(key, [*_OURS, *STORM_KEYS], "Keys of your own must not start with 'topology.', 'storm.' or "
                       "'anchorbolt.'.")  # fmt: skip


def canonical_provider(name: str) -> str:
    """Return a provider's name here: one of ours, or the dotted name of a user's class.

    Raises:
        ConfigError: There is no such provider.
    """
    key = "topology.state.provider"
    canonical = STORM_PROVIDERS.get(name, name)
    if canonical in PROVIDERS:
        return canonical
    parts = canonical.split(".")
    if len(parts) < 2 or parts[:2] == ["org", "apache"] or not all(part.isidentifier() for part in parts):
        known = [*PROVIDERS, *STORM_PROVIDERS]
        raise ConfigError(
            f"{key} is {name!r}, which is unknown.{did_you_mean(name, known)} It must be one of "
            f"{', '.join(PROVIDERS)}, or the dotted name of a StateProvider class of yours.",
            key=key,
        )
    return canonical


def checked(model: type[_M], values: Mapping[str, Any], prefix: str = "") -> _M:
    """Return `values` as a model, nulls left out, so that they mean the default.

    Args:
        model: One of `keys`.
        values: The values by key.
        prefix: Key that they stand below, with its dot; empty for the outermost.

    Raises:
        ConfigError: A key is unknown, or a value does not fit. Shows no password and no mapping.
    """
    failure: ConfigError | None = None
    try:
        return model.model_validate(_without_nulls(values))
    except ValidationError as error:
        failure = _translated(error, model, prefix)
    raise failure  # out here, so that it does not hold pydantic's error, which holds the values


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


def _translated(error: ValidationError, model: type[BaseModel], prefix: str) -> ConfigError:
    first = error.errors(include_url=False, include_context=False)[0]
    path = [str(part) for part in first["loc"]]
    key = prefix + ".".join(path)
    named = [part for part in first["loc"] if isinstance(part, str)]  # an item is described where its list is
    model = _INNER_MODELS.get((prefix + ".".join(named)).rpartition(".")[0], model)
    fields = {field.alias or name: field for name, field in model.model_fields.items()}
    if first["type"] == "extra_forbidden":
        if any(word in key.rpartition(PROVIDER_CONFIG)[2].lower() for word in _SASL):
            return ConfigError(f"unknown configuration key {key!r}. {_NO_SASL}", key=key)
        known = [f"{key.rpartition('.')[0]}.{name}" for name in fields]
        return _unknown(key, known, f"Known here are: {', '.join(fields)}.")
    described = [fields[part] for part in (key, *reversed(path)) if part in fields]
    description = described[0].description if described else "a mapping with strings as keys"
    return ConfigError(f"{key} is {_shown(key, first['input'])}, but must be {description}.", key=key)


def _shown(key: str, value: Any) -> str:
    """Show a value, or only its type where it is, or could hold, a password, such as a URL in place of a host."""
    could_hold = isinstance(value, str) and (key in _INNER_MODELS or "@" in value)
    hidden = is_password(key) or could_hold
    if hidden or not (value is None or isinstance(value, (bool, int, float, str))):
        return f"of type {type(value).__name__}"
    return shortened(value, 100)


def _unknown(key: str, known: Iterable[str], advice: str) -> ConfigError:
    return ConfigError(f"unknown configuration key {key!r}.{did_you_mean(key, known)} {advice}", key=key)
