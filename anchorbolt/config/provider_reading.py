"""Reads the settings of a state provider below `topology.state.provider.config`.

Refuses settings for SASL or Kerberos instead of ignoring them. Storm's client connects to ZooKeeper and HBase itself,
with the settings below `hbaseConfigKey`; Anchorbolt connects to a Thrift server, so these settings have no effect.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict
from fnmatch import fnmatchcase
from typing import Any

from anchorbolt.config.declaration import Accepted, Setting, read_values
from anchorbolt.config.providers import (
    GROUPS,
    PROVIDER,
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
from anchorbolt.config.secret import find_password
from anchorbolt.errors import ConfigError

_FOR_ANY_CLASS = ("keyClass", "valueClass", "keySerializerClass", "valueSerializerClass")
# By words in a key of the provider's configuration.
_UNSUPPORTED = {
    ("sasl", "kerberos", "keytab", "principal"): "SASL and Kerberos are not supported: let the Thrift server log in to "
    "HBase, and secure the connection to it by thriftConfig.tls and the network.",
    ("sentinel",): "Redis Sentinel is not supported: name the master by jedisPoolConfig, under an address that follows "
    "a failover; or use a Redis Cluster, by jedisClusterConfig.",
}
_SECURITY = (
    *("hbase.security.*", "hadoop.security.*", "hbase.rpc.protection", "hadoop.rpc.protection"),
    *("hbase.rpc.ssl.*", "hbase.client.netty.tls.*", "*.tls.*", "*.ssl.*"),
    *("storm.keytab.file", "storm.kerberos.principal", "*.keytab.*", "*.keytab", "*kerberos*"),
    *("hbase.thrift.security.*", "*.sasl.*"),
)
# Values that require no security; `authentication` is the weakest `hbase.rpc.protection`.
_NO_SECURITY = ("", "simple", "authentication", "false", "none")
_MAPPING = Accepted(lambda value: isinstance(value, Mapping), "a mapping")
_Values = dict[str, Any]


def read_provider(name: str, source: Mapping[str, Any]) -> tuple[ProviderSettings, _Values]:
    """Return a provider's settings, and its configuration with defaults and without passwords.

    `source` is the whole given configuration.
    """
    given = source.get(PROVIDER_CONFIG) or {}
    custom: _Values = {}
    if name not in PROVIDERS:
        custom = {key: value for key, value in given.items() if key not in _FOR_ANY_CLASS}
        given = {key: value for key, value in given.items() if key in _FOR_ANY_CLASS}
    _refuse_unsupported(given)
    groups = {group: _read_group(group, given[group]) for group in GROUPS if given.get(group) is not None}
    known = UNGROUPED | {group: Setting(group, group, None, _MAPPING) for group in GROUPS}
    values = read_values(known, {key: given[key] for key in given if key not in GROUPS}, PROVIDER_CONFIG)
    shown = _shown(UNGROUPED, values)
    shown |= {group: _shown(settings, groups.get(group, {})) for group, settings in GROUPS.items()}
    if name == "redis" and "jedisClusterConfig" in groups and "jedisPoolConfig" not in groups:
        name = "redis-cluster"  # Storm has one class for both, and chooses in this way
    for_servers = {"largest_value": values.pop("largest_value", None)}
    table = {field: values.pop(field) for field in ("table", "column_family", "create_table") if field in values}
    provider = ProviderSettings(
        name=name,
        is_set=source.get(PROVIDER) is not None,
        redis=RedisSettings(**for_servers, **_login("jedisPoolConfig", groups)),
        redis_cluster=RedisClusterSettings(**for_servers, **_login("jedisClusterConfig", groups)),
        hbase=_hbase(table | for_servers, groups) if name == "hbase" else None,
        custom=custom,
        **values,
    )
    if name == "hbase":
        _refuse_security(provider.hbase_config_key, source)
    serializers = {"keySerializerClass": provider.key_serializer, "valueSerializerClass": provider.value_serializer}
    return provider, {**shown, **serializers, **custom}


def _read_group(group: str, given: object) -> _Values:
    key = f"{PROVIDER_CONFIG}.{group}"
    values = read_values(GROUPS[group], given, key)
    if "tls" in values:
        values["tls"] = read_tls(values["tls"], f"{key}.tls")
    return values


def _login(group: str, groups: Mapping[str, _Values]) -> _Values:
    """Return the settings of a group, with the password instead of the keys for its location."""
    values = dict(groups.get(group, {}))
    key = f"{PROVIDER_CONFIG}.{group}.password"
    ways = [values.pop(field, None) for field in ("password", "env", "file")]
    return {**values, "password": find_password((key, f"{key}Env", f"{key}File"), *ways)}


def _hbase(values: _Values, groups: Mapping[str, _Values]) -> HBaseSettings:
    for field, key in (("table", "tableName"), ("column_family", "columnFamily")):
        if field not in values:
            raise ConfigError(
                f"{PROVIDER_CONFIG}.{key} is not set. Name the HBase table and the column family that hold the state; "
                "with createTable: true a missing table is created.",
                key=f"{PROVIDER_CONFIG}.{key}",
            )
    return HBaseSettings(**values, **groups.get("thriftConfig", {}))


def _refuse_unsupported(given: Mapping[str, Any]) -> None:
    inner = (f"{group}.{key}" for group in GROUPS if isinstance(given.get(group), Mapping) for key in given[group])
    for key in (*given, *inner):
        for words, advice in _UNSUPPORTED.items():
            if any(word in str(key).lower() for word in words):
                name = f"{PROVIDER_CONFIG}.{key}"
                raise ConfigError(f"unknown configuration key {name!r}. {advice}", key=name)


def _refuse_security(config_key: str | None, source: Mapping[str, Any]) -> None:
    """Refuse security settings of Storm's HBase client, in `source` and in its mapping `config_key`."""
    asking = []
    for key, value in source.items():
        if key == "topology.auto-credentials":
            asks = "hbase" in str(value).lower()  # names of classes, such as Storm's AutoHBase
        else:
            asks = key == "hbaseCredentialsConfigKeys" or (key.startswith("hbase.") and _asks_for_security(key, value))
        if asks and value:
            asking.append(key)
    settings = {} if config_key is None else source.get(config_key)
    if not isinstance(settings, Mapping):
        problem = "is not set" if settings is None else f"is of type {type(settings).__name__}"
        raise ConfigError(
            f"{PROVIDER_CONFIG}.hbaseConfigKey is {config_key!r}, and {config_key!r} {problem}. It must be a mapping "
            "of HBase's settings, as in Storm. Remove hbaseConfigKey if there are none: thriftConfig says where HBase "
            "is.",
            key=f"{PROVIDER_CONFIG}.hbaseConfigKey",
        )
    asking += [f"{config_key}.{setting}" for setting, value in settings.items() if _asks_for_security(setting, value)]
    if asking:
        raise ConfigError(
            f"{asking[0]} asks for security on the way from the client to HBase. Anchorbolt connects to a Thrift "
            "server, without SASL or Kerberos. Secure that connection by thriftConfig.tls and the network, let the "
            f"Thrift server log in to HBase, and remove {asking[0]}.",
            key=asking[0],
        )


def _asks_for_security(setting: object, value: object) -> bool:
    asked = str(value).strip().lower() not in _NO_SECURITY
    return asked and any(fnmatchcase(str(setting).lower(), pattern) for pattern in _SECURITY)


def _shown(known: Mapping[str, Setting], values: Mapping[str, Any]) -> _Values:
    shown = {}
    for key, setting in known.items():
        value = values.get(setting.field, None if setting.default is MISSING else setting.default)
        if isinstance(value, TlsSettings):
            value = asdict(value)
        if key != "password":
            shown[key] = list(value) if isinstance(value, tuple) else value
    return shown
