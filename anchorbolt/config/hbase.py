"""Refuses Storm's own settings of HBase that ask for security, instead of ignoring them.

Storm's client connects to ZooKeeper and HBase itself, by the settings that `hbaseConfigKey` names. Anchorbolt connects
to a Thrift server, so none of them has an effect here.
"""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from anchorbolt.config.providers import PROVIDER_CONFIG
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
"""Values that ask for nothing; `authentication` is the weakest `hbase.rpc.protection`."""


def refuse_security(config_key: str | None, source: Mapping[str, Any]) -> None:
    """Refuse settings that ask for security, below the key `config_key` and in the rest of the configuration `source`.

    Raises `ConfigError` if there is such a setting, or `config_key` does not name a mapping.
    """
    for key, value in source.items():
        if key == _AUTO_CREDENTIALS:
            asks = "hbase" in str(value).lower()  # names of classes, such as Storm's AutoHBase
        else:
            asks = key == _CREDENTIALS_KEYS or (key.startswith("hbase.") and _asks_for_security(key, value))
        if asks and value:
            raise _insecure(key)
    if config_key is None:
        return
    settings = source.get(config_key)
    if not isinstance(settings, Mapping):
        problem = "is not set" if settings is None else f"is of type {type(settings).__name__}"
        raise ConfigError(
            f"{PROVIDER_CONFIG}.hbaseConfigKey is {config_key!r}, and {config_key!r} {problem}. It must be a mapping "
            "of HBase's settings, as in Storm. Remove hbaseConfigKey if there are none: thriftConfig says where HBase "
            "is.",
            key=f"{PROVIDER_CONFIG}.hbaseConfigKey",
        )
    for setting, value in settings.items():
        if _asks_for_security(setting, value):
            raise _insecure(f"{config_key}.{setting}")


def _asks_for_security(setting: object, value: object) -> bool:
    asked = str(value).strip().lower() not in _NO_SECURITY
    return asked and any(fnmatchcase(str(setting).lower(), pattern) for pattern in _SECURITY)


def _insecure(key: str) -> ConfigError:
    return ConfigError(
        f"{key} asks for security on the way from the client to HBase. Anchorbolt connects to a Thrift server, without "
        "SASL or Kerberos. Secure that connection by thriftConfig.tls and the network, let the Thrift server log in to "
        f"HBase, and remove {key}.",
        key=key,
    )
