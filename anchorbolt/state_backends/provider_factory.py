"""Builds the state provider that the settings ask for. Opens nothing: a provider connects when it is used."""

from __future__ import annotations

from anchorbolt.config.settings import (
    HBaseSettings,
    ProviderSettings,
    Settings,
)
from anchorbolt.errors import AnchorboltError, ConfigError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.util.class_loading import load_class

_KEY = "topology.state.provider"


def provider_from(
    settings: Settings, *, shared_by_processes: bool, shared_by_machines: bool
) -> StateProvider:
    """Return the provider that is configured, new.

    Args:
        settings: The settings of the run.
        shared_by_processes: Whether tasks run in several processes, which must see the same state.
        shared_by_machines: Whether they run on several machines.

    Raises:
        ConfigError: The provider cannot serve so many processes or machines, or a user's class cannot be imported,
            built, or is no `StateProvider`.
    """
    provider = _build(settings)
    name = settings.provider.name
    if shared_by_machines and not provider.shared_by_machines:
        raise ConfigError(
            f"{_KEY} is {name}, whose state lies on one machine, but the Spark master is not local. Set {_KEY} to "
            "redis, redis-cluster or hbase, or use a local master.",
            key=_KEY,
        )
    if shared_by_processes and not provider.shared_by_processes:
        raise ConfigError(
            f"{_KEY} is {name}, whose state lives in one process, but Spark runs tasks in several. Set {_KEY} to "
            "sqlite or redis, or run the topology on LocalCluster.",
            key=_KEY,
        )
    return provider


def _build(settings: Settings) -> StateProvider:
    # Each driver is imported only where it is used: a job on SQLite must not need Redis's.
    name = settings.provider.name
    if name == "memory":
        from anchorbolt.state_backends.memory import MemoryStateProvider

        return MemoryStateProvider()
    if name == "sqlite":
        from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider

        return SqliteStateProvider(settings.state_directory)
    if name == "redis":
        return _redis(settings.provider)
    if name == "redis-cluster":
        return _redis_cluster(settings.provider)
    if name == "hbase":
        assert settings.provider.hbase is not None
        return _hbase(settings.provider, settings.provider.hbase)
    return _custom(settings.provider)


def _redis(provider: ProviderSettings) -> StateProvider:
    from anchorbolt.state_backends.redis.provider import RedisStateProvider

    redis = provider.redis
    return RedisStateProvider(
        redis.host,
        redis.port,
        database=redis.database,
        username=redis.username,
        password=redis.password,
        timeout_ms=redis.timeout_ms,
        tls=redis.tls,
        largest_value=provider.largest_value,
    )


def _redis_cluster(provider: ProviderSettings) -> StateProvider:
    from anchorbolt.state_backends.redis.cluster_provider import RedisClusterStateProvider

    cluster = provider.redis_cluster
    return RedisClusterStateProvider(
        cluster.nodes,
        max_redirections=cluster.max_redirections,
        username=cluster.username,
        password=cluster.password,
        timeout_ms=cluster.timeout_ms,
        tls=cluster.tls,
        largest_value=provider.largest_value,
    )


def _hbase(provider: ProviderSettings, hbase: HBaseSettings) -> StateProvider:
    from anchorbolt.state_backends.hbase.provider import HBaseStateProvider

    return HBaseStateProvider(
        hbase.table,
        hbase.column_family,
        host=hbase.host,
        port=hbase.port,
        timeout_ms=hbase.timeout_ms,
        transport=hbase.transport,
        protocol=hbase.protocol,
        create_table=hbase.create_table,
        largest_value=provider.largest_value,
        tls=hbase.tls,
    )


def _custom(provider: ProviderSettings) -> StateProvider:
    kind: type[StateProvider] = load_class(provider.name, StateProvider, _KEY)
    try:
        return kind(**provider.custom)
    except AnchorboltError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{provider.name} could not be built with the arguments {', '.join(provider.custom) or 'none'}, taken from "
            f"{_KEY}.config: {type(error).__name__}: {error}. Check them against the class.",
            key=f"{_KEY}.config",
        ) from error
