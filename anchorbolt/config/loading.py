"""Reads a run's configuration, checks it, and fills in defaults. On the driver only: it imports PyYAML.

A password becomes a `Secret` at once. Bolts do not get it, and no message contains it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from anchorbolt.config.declaration import Setting, by_key, check_value, read_values, text, unknown_key
from anchorbolt.config.provider_reading import read_provider
from anchorbolt.config.providers import PROVIDER, PROVIDER_CONFIG, PROVIDERS, is_class_name
from anchorbolt.config.secret import Secret
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
