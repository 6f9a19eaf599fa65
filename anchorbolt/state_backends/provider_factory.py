"""Builds the state provider that the settings ask for. Opens nothing: a provider connects when it is used."""

from anchorbolt.config.providers import PROVIDER, PROVIDER_CONFIG, ProviderSettings
from anchorbolt.config.settings import Settings
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.util.class_loading import load_class


def provider_from(settings: Settings, *, shared_by_processes: bool, shared_by_machines: bool) -> StateProvider:
    """Return a new provider, as configured.

    Args:
        settings: The settings of the run.
        shared_by_processes: Whether tasks run in several processes, which must see the same state.
        shared_by_machines: Whether they run on several machines.

    Raises:
        ConfigError: The provider cannot serve several processes or machines, or a user's class cannot be imported or
            built, or does not extend `StateProvider`.
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


def _build(settings: ProviderSettings) -> StateProvider:
    # Each driver is imported only where it is used: a job on SQLite must not need the one of Redis.
    if settings.name == "memory":
        from anchorbolt.state_backends.memory import MemoryStateProvider

        return MemoryStateProvider()
    if settings.name == "sqlite":
        from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider

        return SqliteStateProvider(settings.state_directory)
    if settings.name == "redis":
        from anchorbolt.state_backends.redis.provider import RedisStateProvider

        return RedisStateProvider(**vars(settings.redis))
    if settings.name == "redis-cluster":
        from anchorbolt.state_backends.redis.cluster_provider import RedisClusterStateProvider

        return RedisClusterStateProvider(**vars(settings.redis_cluster))
    if settings.name == "hbase":
        from anchorbolt.state_backends.hbase.provider import HBaseStateProvider

        return HBaseStateProvider(**vars(settings.hbase))
    return _custom(settings)


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
