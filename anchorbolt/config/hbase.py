"""The settings of HBase: a table, a column family, a Thrift server; and a look through Storm's own settings of HBase.

Storm's client goes to ZooKeeper and to HBase itself, by the settings that `hbaseConfigKey` points to. This one goes by
a Thrift server, so none of them has an effect; those that ask for security are refused rather than left unheeded.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from anchorbolt.config.login import tls_settings
from anchorbolt.config.provider_keys import ProviderConfig
from anchorbolt.config.settings import PROVIDER_CONFIG, HBaseSettings
from anchorbolt.errors import ConfigError

_SECURITY = (
    *("hbase.security.*", "hadoop.security.*", "hbase.rpc.protection", "hadoop.rpc.protection"),
    *("hbase.rpc.ssl.*", "hbase.client.netty.tls.*", "*.tls.*", "*.ssl.*"),
    *("storm.keytab.file", "storm.kerberos.principal", "*.keytab.*", "*.keytab", "*kerberos*"),
    *("hbase.thrift.security.*", "*.sasl.*"),
)
_AUTO_CREDENTIALS = "topology.auto-credentials"
_CREDENTIALS_KEYS = "hbaseCredentialsConfigKeys"
_NO_SECURITY = frozenset({"", "simple", "authentication", "false", "none"})
"""Values by which these settings ask for nothing; `authentication` is the weakest `hbase.rpc.protection`."""


def hbase_settings(inner: ProviderConfig, source: Mapping[str, Any]) -> HBaseSettings:
    """Return the settings of HBase.

    Args:
        inner: The checked inner keys.
        source: The whole configuration, as given, in which `hbaseConfigKey` names a key.

    Raises:
        ConfigError: Table or column family are missing, `hbaseConfigKey` names no mapping, or Storm's settings of HBase
            ask for security.
    """
    _look_around(source)
    if inner.hbaseConfigKey is not None:
        _look_through(inner.hbaseConfigKey, source)
    thrift = inner.thriftConfig
    return HBaseSettings(
        table=_required("tableName", inner.tableName),
        column_family=_required("columnFamily", inner.columnFamily),
        create_table=inner.createTable,
        host=thrift.host,
        port=thrift.port,
        timeout_ms=thrift.timeout,
        transport=thrift.transport,
        protocol=thrift.protocol,
        tls=tls_settings(f"{PROVIDER_CONFIG}.thriftConfig", thrift.tls),
    )


def _required(key: str, value: str | None) -> str:
    if value is None:
        raise ConfigError(
            f"{PROVIDER_CONFIG}.{key} is not set. Name the HBase table and the column family that the state lies in; "
            "with createTable: true they are made where they are missing.",
            key=f"{PROVIDER_CONFIG}.{key}",
        )
    return value


def _look_through(name: str, source: Mapping[str, Any]) -> None:
    key = f"{PROVIDER_CONFIG}.hbaseConfigKey"
    settings = source.get(name)
    if not isinstance(settings, Mapping):
        problem = "is not set" if settings is None else f"is of type {type(settings).__name__}"
        raise ConfigError(
            f"{key} is {name!r}, and {name!r} {problem}. It must be a mapping of HBase's settings, as in Storm; "
            "remove hbaseConfigKey if there are none: the way to HBase is set by thriftConfig.",
            key=key,
        )
    for setting, value in settings.items():
        if _asks_for_security(setting, value):
            raise _insecure(f"{name}.{setting}")


def _look_around(source: Mapping[str, Any]) -> None:
    """Look at what Storm has for a secured HBase beside the provider's configuration."""
    for key, value in source.items():
        if key == _AUTO_CREDENTIALS:
            asks = "hbase" in str(value).lower()  # names of classes, such as Storm's AutoHBase
        else:
            asks = key == _CREDENTIALS_KEYS or (key.startswith("hbase.") and _asks_for_security(key, value))
        if asks and value:
            raise _insecure(key)


def _asks_for_security(setting: object, value: object) -> bool:
    asked = str(value).strip().lower() not in _NO_SECURITY
    return asked and any(fnmatchcase(str(setting).lower(), pattern) for pattern in _SECURITY)


def _insecure(key: str) -> ConfigError:
    return ConfigError(
        f"{key} asks for security on the way from the client to HBase, which here goes by a Thrift server, and without "
        "SASL or Kerberos. Secure that way by thriftConfig.tls and the network, let the Thrift server log in to HBase, "
        f"and remove {key}.",
        key=key,
    )
