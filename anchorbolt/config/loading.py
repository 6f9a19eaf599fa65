"""Reads a run's configuration, checks it, and fills in defaults. On the driver only: no worker ever loads this file.

A password given here becomes a `Secret` in the settings at once; what bolts see, what is shown and what is raised
never holds it. YAML is read by PyYAML, and values are checked by pydantic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from anchorbolt.config.checks import canonical_provider, check_keys, checked
from anchorbolt.config.keys import TopologyConfig
from anchorbolt.config.provider_keys import PROVIDERS, ProviderConfig
from anchorbolt.config.provider_settings import provider_settings
from anchorbolt.config.secret import Secret
from anchorbolt.config.settings import PROVIDER_CONFIG, ProviderSettings, Settings
from anchorbolt.config.sources import merged, read_file
from anchorbolt.config.storm_keys import STORM_SECRETS
from anchorbolt.errors import ConfigError


class Configuration(Mapping[str, Any]):
    """A checked configuration: as a mapping what bolts see in `prepare`, and typed as `settings`.

    The mapping has every key of `docs/configuration.md`, defaults filled in, Storm's other keys and the job author's
    own as they were given; no password of the state provider. Its `repr` shows the keys only.

    Attributes:
        settings: The same for the framework, passwords included.
    """

    def __init__(self, values: Mapping[str, Any], settings: Settings, source: Mapping[str, Any]) -> None:
        """Made by `load_conf`; `source` is what was given, to be merged with more."""
        self._values = dict(values)
        self.settings = settings
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
    conf: Mapping[str, Any] | None = None,
    *,
    file: str | PathLike[str] | None = None,
    overrides: Sequence[str] = (),
) -> Configuration:
    """Read and check a configuration.

    Args:
        conf: Keys and values; over what `file` says. A `Configuration` keeps its passwords.
        file: A YAML or JSON file.
        overrides: Texts `key=value` from a command line, over all else: the value is read as YAML, and inner keys of
            `topology.state.provider.config` are dotted. Must not hold a password.

    Returns:
        The configuration. Reads the environment and the file where `passwordEnv` or `passwordFile` ask for it.

    Raises:
        ConfigError: The file cannot be read, a key is unknown, or a value does not fit.
    """
    given = conf._source if isinstance(conf, Configuration) else conf or {}
    source = merged(read_file(file) if file is not None else {}, given, overrides)
    check_keys(source)
    aliases = {field.alias for field in TopologyConfig.model_fields.values()}
    model = checked(TopologyConfig, {key: value for key, value in source.items() if key in aliases})
    if model.checkpoint_interval_ms >= model.message_timeout_secs * 1000:
        raise ConfigError(
            f"topology.state.checkpoint.interval.ms is {model.checkpoint_interval_ms}, which is not below "
            f"topology.message.timeout.secs, {model.message_timeout_secs} s. Lower the interval or raise the timeout.",
            key="topology.state.checkpoint.interval.ms",
        )
    name = canonical_provider(model.provider)
    is_ours = name in PROVIDERS
    given_config = model.provider_config
    shared = ("keyClass", "valueClass", "keySerializerClass", "valueSerializerClass")
    known = given_config if is_ours else {key: given_config[key] for key in shared if key in given_config}
    inner = checked(ProviderConfig, known, f"{PROVIDER_CONFIG}.")
    custom = {} if is_ours else {key: value for key, value in given_config.items() if key not in shared}
    provider = provider_settings(name, source, inner, custom)
    return Configuration(
        _seen_by_bolts(source, model, provider.name, inner, custom), _settings(model, inner, provider), source
    )


def _settings(model: TopologyConfig, inner: ProviderConfig, provider: ProviderSettings) -> Settings:
    return Settings(
        provider=provider,
        key_serializer=inner.keySerializerClass,
        value_serializer=inner.valueSerializerClass,
        namespace_prefix=model.namespace_prefix,
        checkpoint_interval_ms=model.checkpoint_interval_ms,
        checkpoint_location=model.checkpoint_location,
        accept_new_query=model.accept_new_query,
        message_timeout_secs=model.message_timeout_secs,
        max_batch_retries=model.max_batch_retries,
        cache_max_entries=model.cache_max_entries,
        pending_max_entries=model.pending_max_entries,
        blob_bytes=model.blob_bytes,
        buffer_tuples=model.buffer_tuples,
    )


def _seen_by_bolts(
    source: Mapping[str, Any],
    model: TopologyConfig,
    provider: str,
    inner: ProviderConfig,
    custom: Mapping[str, Any],
) -> dict[str, Any]:
    values = {key: value for key, value in source.items() if key not in STORM_SECRETS}
    values.update(model.model_dump(by_alias=True))
    values["topology.state.provider"] = provider
    shown = inner.model_dump(exclude={"jedisPoolConfig": {"password"}, "jedisClusterConfig": {"password"}})
    values[PROVIDER_CONFIG] = shown if provider in PROVIDERS else _without_secrets({**shown, **custom})
    return values


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items() if not isinstance(item, Secret)}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    return value
