"""From the provider's inner keys to its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchorbolt.config.hbase import hbase_settings
from anchorbolt.config.login import password_of, tls_settings
from anchorbolt.config.provider_keys import ProviderConfig, RedisLogin
from anchorbolt.config.settings import PROVIDER_CONFIG, ProviderSettings, RedisClusterSettings, RedisSettings


def provider_settings(
    name: str, source: Mapping[str, Any], inner: ProviderConfig, custom: Mapping[str, Any]
) -> ProviderSettings:
    """Return the settings of a provider. Reads the environment and files where the keys of a password ask for it.

    Args:
        name: What was chosen, by its name here.
        source: The whole configuration, as given.
        inner: The checked inner keys.
        custom: Those of a user's class.

    Raises:
        ConfigError: A password cannot be read, or keys exclude each other.
    """
    given = inner.model_fields_set
    if name == "redis" and "jedisClusterConfig" in given and "jedisPoolConfig" not in given:
        name = "redis-cluster"  # Storm has one class for both, and so it decides
    pool, cluster = inner.jedisPoolConfig, inner.jedisClusterConfig
    return ProviderSettings(
        name=name,
        is_set=source.get("topology.state.provider") is not None,
        directory=inner.directory,
        redis=RedisSettings(
            host=pool.host, port=pool.port, database=pool.database, **_login("jedisPoolConfig", pool)
        ),
        redis_cluster=RedisClusterSettings(
            nodes=tuple(cluster.nodes),
            max_redirections=cluster.maxRedirections,
            **_login("jedisClusterConfig", cluster),
        ),
        hbase=hbase_settings(inner, source) if name == "hbase" else None,
        largest_value=inner.largestValue,
        custom=custom,
    )


def _login(key: str, login: RedisLogin) -> dict[str, Any]:
    key = f"{PROVIDER_CONFIG}.{key}"
    return {
        "timeout_ms": login.timeout,
        "username": login.username,
        "password": password_of(key, login),
        "tls": tls_settings(key, login.tls),
    }
