"""Reads a run's configuration, checks it, and fills in defaults. On the driver only: it imports PyYAML.

A password becomes a `Secret` at once. Bolts do not get it, and no message contains it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any

from anchorbolt.config.declaration import Accepted, Setting, by_key, check_value, read_values, text, unknown_key
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
    is_class_name,
    read_tls,
)
from anchorbolt.config.secret import Secret, find_password
from anchorbolt.config.settings import Settings
from anchorbolt.config.sources import merged, overridden_key, read_file
from anchorbolt.config.spark_options import SPARK, SparkOptions, refuse_spark_setting
from anchorbolt.config.storm_keys import STORM_KEYS, STORM_SECRETS
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean

_KNOWN = [PROVIDER, PROVIDER_CONFIG, SPARK, *by_key(Settings), *STORM_KEYS]
_PREFIXES = ("topology", "storm", "anchorbolt")
_MISSPELT = 0.9  # similarity by `difflib` from which an unknown key counts as a misspelt known key
_NAME = Setting("name", PROVIDER, "sqlite", text("the name of a state provider"))
_STORM_PROVIDERS = {
    "org.apache.storm.state.InMemoryKeyValueStateProvider": "memory",
    "org.apache.storm.redis.state.RedisKeyValueStateProvider": "redis",
    "org.apache.storm.hbase.state.HBaseKeyValueStateProvider": "hbase",
}

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


class Configuration(Mapping[str, Any]):
    """A checked configuration: a mapping, which bolts get in `prepare`, and typed `settings`.

    The mapping has every key of `docs/configuration.md` with defaults filled in, and Storm's other keys and the job
    author's own keys unchanged. It has no password of the state provider. Its `repr` shows only the keys.

    Attributes:
        settings: The same for the framework, including passwords.
        origins: The source of each given key: `file NAME`, `program` or `--set`; `file NAME and program` for Spark's
            options from both. All other keys have their default.
    """

    def __init__(
        self, values: Mapping[str, Any], settings: Settings, source: Mapping[str, Any], origins: Mapping[str, str]
    ) -> None:
        """Called by `load_conf`; `source` is the given configuration, for merging with more keys."""
        self._values = dict(values)
        self.settings = settings
        self.origins = dict(origins)
        self._source = dict(source)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Configuration({', '.join(self._values)})"


def load_conf(
    conf: Mapping[str, Any] | None = None, *, file: str | PathLike[str] | None = None, overrides: Sequence[str] = ()
) -> Configuration:
    """Read and check a configuration.

    Args:
        conf: Keys and values, which override those of `file`. A `Configuration` keeps its passwords.
        file: A YAML or JSON file.
        overrides: Texts `key=value` from a command line, which override everything else. A number, true, false, null, a
            list `[…]`, a mapping `{…}` and a quoted text are read as YAML; any other text is used unchanged. Inner keys
            of `topology.state.provider.config` are dotted. Must not hold a password.

    Returns:
        The configuration. Reads the environment variable or file named by `passwordEnv` or `passwordFile`.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value does not fit.
    """
    given = conf._source if isinstance(conf, Configuration) else conf or {}
    in_file = read_file(file) if file is not None else {}
    source = merged(in_file, given, overrides)
    _check_keys(source)
    known = by_key(Settings)
    values = read_values(known, {key: value for key, value in source.items() if key in known})
    chosen = source.get(PROVIDER)
    name = _canonical_provider("sqlite" if chosen is None else chosen)
    provider, inner = read_provider(name, source)
    spark = SparkOptions(**read_values(by_key(SparkOptions), source.get(SPARK) or {}, SPARK))
    settings = Settings(provider=provider, spark=spark, **values)
    seen = {key: value for key, value in source.items() if key not in STORM_SECRETS}
    seen |= {key: getattr(settings, each.field) for key, each in known.items()}
    seen |= {PROVIDER: provider.name, PROVIDER_CONFIG: _without_secrets(inner)}
    origins = {**dict.fromkeys(in_file, f"file {file}"), **dict.fromkeys(given, "program")}
    if in_file.get(SPARK) and given.get(SPARK):
        origins[SPARK] = f"file {file} and program"  # the options are merged
    if isinstance(conf, Configuration):
        origins |= conf.origins
    origins |= dict.fromkeys(map(overridden_key, overrides), "--set")
    is_default = {key for key, value in source.items() if value is None or (key == SPARK and not value)}
    return Configuration(seen, settings, source, {key: origins[key] for key in source if key not in is_default})


def _check_keys(keys: Iterable[str]) -> None:
    """Raise `ConfigError` for an unknown key with one of our prefixes, and for a setting of Spark.

    All other keys belong to the job author.
    """
    for key in keys:
        if key in _KNOWN:
            continue
        refuse_spark_setting(key)
        prefix, dot, _ = key.partition(".")
        if prefix not in _PREFIXES:
            nearest = did_you_mean(key.lower(), _KNOWN, _MISSPELT) if dot else ""
            if not nearest:
                continue
            problem = f"is unknown, but similar to a known one.{nearest} If it is a key of your own, rename it."
        elif not dot:
            problem = "is not dotted. Write keys in full, as Storm does: 'topology.state.provider: redis', not nested."
        elif key == "topology.name":
            problem = "cannot be set: a topology is named by create_topology(name). Remove the key."
        else:
            own = "Keys of your own must not start with 'topology.', 'storm.' or 'anchorbolt.'."
            raise unknown_key(key, _KNOWN, own)
        raise ConfigError(f"the key {key!r} {problem}", key=key)


def _canonical_provider(name: str) -> str:
    """Return Anchorbolt's name of a provider: one of `PROVIDERS`, or the dotted name of a user's class."""
    check_value(_NAME, name, PROVIDER)
    canonical = _STORM_PROVIDERS.get(name, name)
    if canonical in PROVIDERS or is_class_name(canonical):
        return canonical
    raise ConfigError(
        f"{PROVIDER} is {name!r}, which is unknown.{did_you_mean(name, [*PROVIDERS, *_STORM_PROVIDERS])} It must be "
        f"one of {', '.join(PROVIDERS)}, or the dotted name of a StateProvider class of yours.",
        key=PROVIDER,
    )


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if not isinstance(item, Secret)}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value


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
    """Refuse security settings of Storm's HBase client, in `source` and in its mapping `config_key`.

    Storm's client connects to ZooKeeper and HBase itself, with these settings. Anchorbolt connects to a Thrift server,
    where they would have no effect.
    """
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
