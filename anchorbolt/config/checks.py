"""Refuses unknown keys of a configuration, with the nearest known one, and unknown providers."""

from collections.abc import Iterable

from anchorbolt.config.declaration import Setting, by_key, check_value, text, unknown_key
from anchorbolt.config.providers import PROVIDER, PROVIDER_CONFIG, PROVIDERS
from anchorbolt.config.settings import Settings
from anchorbolt.config.spark_options import SPARK, refuse_spark_setting
from anchorbolt.config.storm_keys import STORM_KEYS
from anchorbolt.errors import ConfigError
from anchorbolt.util.messages import did_you_mean

_KNOWN = [PROVIDER, PROVIDER_CONFIG, SPARK, *by_key(Settings), *STORM_KEYS]
_PREFIXES = ("topology", "storm", "anchorbolt")
_MISSPELT = 0.9  # a key of the author's own that is so similar to a known one, by `difflib`, is a misspelt one
_NAME = Setting("name", PROVIDER, "sqlite", text("the name of a state provider"))
_STORM_PROVIDERS = {
    "org.apache.storm.state.InMemoryKeyValueStateProvider": "memory",
    "org.apache.storm.redis.state.RedisKeyValueStateProvider": "redis",
    "org.apache.storm.hbase.state.HBaseKeyValueStateProvider": "hbase",
}


def check_keys(keys: Iterable[str]) -> None:
    """Raise `ConfigError` for an unknown key with one of our prefixes, and for Spark's own settings.

    All other keys are the job author's own.
    """
    for key in keys:
        prefix, dot, _ = key.partition(".")
        if key in _KNOWN:
            continue
        refuse_spark_setting(key)
        if prefix not in _PREFIXES:
            if dot and (nearest := did_you_mean(key.lower(), _KNOWN, _MISSPELT)):
                raise ConfigError(
                    f"the key {key!r} is unknown, but similar to a known one.{nearest} If it is a key of your own, "
                    "rename it.",
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
                "topology.name cannot be set: a topology is named by create_topology(name). Remove the key.", key=key
            )
        raise unknown_key(key, _KNOWN, "Keys of your own must not start with 'topology.', 'storm.' or 'anchorbolt.'.")


def canonical_provider(name: str) -> str:
    """Return a provider's name here: one of `PROVIDERS`, or the dotted name of a user's class."""
    check_value(_NAME, name, PROVIDER)
    canonical = _STORM_PROVIDERS.get(name, name)
    if canonical in PROVIDERS:
        return canonical
    parts = canonical.split(".")
    if len(parts) < 2 or parts[:2] == ["org", "apache"] or not all(part.isidentifier() for part in parts):
        known = [*PROVIDERS, *_STORM_PROVIDERS]
        raise ConfigError(
            f"{PROVIDER} is {name!r}, which is unknown.{did_you_mean(name, known)} It must be one of "
            f"{', '.join(PROVIDERS)}, or the dotted name of a StateProvider class of yours.",
            key=PROVIDER,
        )
    return canonical
