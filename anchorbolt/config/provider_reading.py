"""Reads the settings of a state provider below `topology.state.provider.config`."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict
from typing import Any

from anchorbolt.config.declaration import Accepted, Setting, read_values
from anchorbolt.config.hbase import refuse_security
from anchorbolt.config.passwords import password_of
from anchorbolt.config.providers import (
    GROUPS,
    PROVIDER_CONFIG,
    PROVIDERS,
    UNGROUPED,
    HBaseSettings,
    ProviderSettings,
    RedisClusterSettings,
    RedisSettings,
    TlsSettings,
    read_tls,
)
from anchorbolt.errors import ConfigError

_FOR_ANY_CLASS = ("keyClass", "valueClass", "keySerializerClass", "valueSerializerClass")
_SASL = ("sasl", "kerberos", "keytab", "principal")
_MAPPING = Accepted(lambda value: isinstance(value, Mapping), "a mapping")
_Values = dict[str, Any]


def read_provider(name: str, source: Mapping[str, Any], *, is_set: bool) -> tuple[ProviderSettings, dict[str, Any]]:
    """Return the settings of a provider, and its configuration with defaults and without passwords.

    Args:
        name: The provider's name here, or the dotted name of a user's class.
        source: The whole configuration, as given.
        is_set: Whether the configuration names the provider.

    Raises:
        ConfigError: A key is unknown, a value does not fit, keys exclude each other, or a password cannot be read.
    """
    given = source.get(PROVIDER_CONFIG) or {}
    custom: _Values = {}
    if name not in PROVIDERS:
        custom = {key: value for key, value in given.items() if key not in _FOR_ANY_CLASS}
        given = {key: value for key, value in given.items() if key in _FOR_ANY_CLASS}
    _refuse_sasl(given)
    groups = {group: _read_group(group, given[group]) for group in GROUPS if given.get(group) is not None}
    known = UNGROUPED | {group: Setting(group, group, None, _MAPPING) for group in GROUPS}
    values = read_values(known, {key: given[key] for key in given if key not in GROUPS}, f"{PROVIDER_CONFIG}.")
    shown = _shown(UNGROUPED, values)
    for group, settings in GROUPS.items():
        shown[group] = _shown(settings, groups.get(group, {}))
    if name == "redis" and "jedisClusterConfig" in groups and "jedisPoolConfig" not in groups:
        name = "redis-cluster"  # Storm has one class for both, and decides so
    for_servers = {"largest_value": values.pop("largest_value", None)}
    table = {field: values.pop(field) for field in ("table", "column_family", "create_table") if field in values}
    provider = ProviderSettings(
        name=name,
        is_set=is_set,
        redis=RedisSettings(**for_servers, **_login("jedisPoolConfig", groups)),
        redis_cluster=RedisClusterSettings(**for_servers, **_login("jedisClusterConfig", groups)),
        hbase=_hbase(table | for_servers, groups) if name == "hbase" else None,
        custom=custom,
        **values,
    )
    if name == "hbase":
        refuse_security(provider.hbase_config_key, source)
    serializers = {"keySerializerClass": provider.key_serializer, "valueSerializerClass": provider.value_serializer}
    return provider, {**shown, **serializers, **custom}


def _read_group(group: str, given: object) -> _Values:
    key = f"{PROVIDER_CONFIG}.{group}"
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"{key} is of type {type(given).__name__}, but must be a mapping with the keys {', '.join(GROUPS[group])}.",
            key=key,
        )
    values = read_values(GROUPS[group], given, f"{key}.")
    if "tls" in values:
        values["tls"] = read_tls(values["tls"], f"{key}.tls")
    return values


def _login(group: str, groups: Mapping[str, _Values]) -> _Values:
    """Return the settings of a group with the password itself in place of the keys that say where it is."""
    values = dict(groups.get(group, {}))
    password = password_of(
        f"{PROVIDER_CONFIG}.{group}",
        {
            "password": values.pop("password", None),
            "passwordEnv": values.pop("env", None),
            "passwordFile": values.pop("file", None),
        },
    )
    return {**values, "password": password}


def _hbase(values: _Values, groups: Mapping[str, _Values]) -> HBaseSettings:
    for field, key in (("table", "tableName"), ("column_family", "columnFamily")):
        if field not in values:
            raise ConfigError(
                f"{PROVIDER_CONFIG}.{key} is not set. Name the HBase table and the column family that hold the state; "
                "with createTable: true a missing table is created.",
                key=f"{PROVIDER_CONFIG}.{key}",
            )
    return HBaseSettings(**values, **groups.get("thriftConfig", {}))


def _refuse_sasl(given: Mapping[str, Any]) -> None:
    thrift = given.get("thriftConfig")
    names = [(key, UNGROUPED | GROUPS) for key in given]
    names += [(f"thriftConfig.{key}", {}) for key in thrift] if isinstance(thrift, Mapping) else []
    for key, known in names:
        if key not in known and any(word in str(key).lower() for word in _SASL):
            raise ConfigError(
                f"unknown configuration key {f'{PROVIDER_CONFIG}.{key}'!r}. SASL and Kerberos are not supported: let "
                "the Thrift server log in to HBase, and secure the connection to it by thriftConfig.tls and the "
                "network.",
                key=f"{PROVIDER_CONFIG}.{key}",
            )


def _shown(known: Mapping[str, Setting], values: Mapping[str, Any]) -> _Values:
    shown = {}
    for key, setting in known.items():
        value = values.get(setting.field, None if setting.default is MISSING else setting.default)
        if isinstance(value, TlsSettings):
            value = asdict(value)
        if key != "password":
            shown[key] = list(value) if isinstance(value, tuple) else value
    return shown
