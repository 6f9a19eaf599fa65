"""Builds the configured state provider and codecs. Opens nothing: a provider connects on first use."""

from importlib import import_module
from typing import Any

from anchorbolt.config.providers import PROVIDER, PROVIDER_CONFIG, ProviderSettings
from anchorbolt.config.settings import Settings
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.serialization import Codec
from anchorbolt.serialization.codecs import codec_named
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.util.imports import load_class


def provider_from(settings: Settings, *, shared_by_processes: bool, shared_by_machines: bool) -> StateProvider:
    """Return a new provider, as configured, for tasks in one or several processes and on one or several machines.

    Raises `ConfigError` if the provider cannot serve several processes or machines, or a user's class cannot be
    imported or built, or does not extend `StateProvider`.
    """
    provider = _build(settings.provider)
    name = settings.provider.name
    if shared_by_machines and not provider.shared_by_machines:
        raise ConfigError(
            f"{PROVIDER} is {name}, whose state is on one machine, but the Spark master is not local. Set {PROVIDER} "
            "to redis, redis-cluster or hbase, or use a local master.",
            key=PROVIDER,
        )
    if shared_by_processes and not provider.shared_by_processes:
        raise ConfigError(
            f"{PROVIDER} is {name}, whose state is in one process, but Spark runs tasks in several. Set {PROVIDER} to "
            "sqlite or redis, or run the topology on LocalCluster.",
            key=PROVIDER,
        )
    return provider


def codecs_from(settings: ProviderSettings) -> tuple[Codec, Codec]:
    """Return the codecs of keys and values. Raises `ConfigError` if a user's class cannot be used."""
    return (
        codec_named(settings.key_serializer, f"{PROVIDER_CONFIG}.keySerializerClass", for_keys=True),
        codec_named(settings.value_serializer, f"{PROVIDER_CONFIG}.valueSerializerClass", for_keys=False),
    )


_CLASSES = {
    "memory": "memory.MemoryStateProvider",
    "sqlite": "sqlite.provider.SqliteStateProvider",
    "redis": "redis.provider.RedisStateProvider",
    "redis-cluster": "redis.provider.RedisClusterStateProvider",
    "hbase": "hbase.provider.HBaseStateProvider",
}


def _build(settings: ProviderSettings) -> StateProvider:
    name = settings.name
    if name not in _CLASSES:
        return _custom(settings)
    arguments: dict[str, Any] = {}
    if name == "sqlite":
        arguments = {"directory": settings.state_directory}
    elif name != "memory":
        arguments = vars(getattr(settings, name.replace("-", "_")))
    # Each client library is imported only when its provider is used: a job on SQLite does not need redis-py.
    module, _, kind = _CLASSES[name].rpartition(".")
    provider: StateProvider = getattr(import_module(f"anchorbolt.state_backends.{module}"), kind)(**arguments)
    return provider


def _custom(provider: ProviderSettings) -> StateProvider:
    kind: type[StateProvider] = load_class(provider.name, StateProvider, PROVIDER)
    try:
        return kind(**provider.custom)
    except AnchorboltError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{provider.name} could not be built with the arguments {', '.join(provider.custom) or 'none'}, taken from "
            f"{PROVIDER_CONFIG}: {type(error).__name__}: {error}. Check them against the class.",
            key=PROVIDER_CONFIG,
        ) from error
