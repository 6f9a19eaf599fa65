"""From the provider's inner keys to its settings: what was chosen, and the password from wherever it lies."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from anchorbolt.config_provider_keys import PROVIDER_CONFIG, ProviderConfig, RedisLogin, TlsConfig
from anchorbolt.errors import ConfigError
from anchorbolt.secret import Secret
from anchorbolt.settings import ProviderSettings, RedisClusterSettings, RedisSettings, TlsSettings

__all__ = ["provider_settings"]

_LARGEST_PASSWORD_FILE = 65_536


def provider_settings(
    name: str, is_set: bool, inner: ProviderConfig, custom: Mapping[str, Any]
) -> ProviderSettings:
    """Return the settings of a provider. Reads the environment and files where the keys of a password ask for it.

    Args:
        name: What was chosen, by its name here.
        is_set: Whether it was chosen, or is the default.
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
        is_set=is_set,
        directory=inner.directory,
        redis=RedisSettings(
            host=pool.host, port=pool.port, database=pool.database, **_login("jedisPoolConfig", pool)
        ),
        redis_cluster=RedisClusterSettings(
            nodes=tuple(cluster.nodes),
            max_redirections=cluster.maxRedirections,
            **_login("jedisClusterConfig", cluster),
        ),
        custom=custom,
    )


def _login(key: str, login: RedisLogin) -> dict[str, Any]:
    key = f"{PROVIDER_CONFIG}.{key}"
    return {
        "timeout_ms": login.timeout,
        "username": login.username,
        "password": _password(key, login),
        "tls": None if login.tls is None else _tls_settings(key, login.tls),
    }


def _tls_settings(key: str, tls: TlsConfig) -> TlsSettings:
    if tls.key is not None and tls.cert is None:
        raise ConfigError(
            f"{key}.tls.key is set, but cert is not. Name the certificate that the key belongs to.",
            key=f"{key}.tls.key",
        )
    return TlsSettings(ca=tls.ca, cert=tls.cert, key=tls.key, verify=tls.verify)


def _password(key: str, login: RedisLogin) -> Secret | None:
    ways = ("password", "passwordEnv", "passwordFile")
    used = [way for way in ways if getattr(login, way) is not None]
    if len(used) > 1:
        raise ConfigError(
            f"{key} has {' and '.join(used)}. Use one of them, best passwordEnv or passwordFile.",
            key=f"{key}.{used[1]}",
        )
    if login.passwordEnv is not None:
        value = os.environ.get(login.passwordEnv)
        if not value:
            state = "not set" if value is None else "empty"
            raise ConfigError(
                f"{key}.passwordEnv names the environment variable {login.passwordEnv}, which is {state}. Set it "
                "where the driver is started.",
                key=f"{key}.passwordEnv",
            )
        return Secret(value)
    if login.passwordFile is not None:
        return _password_in(f"{key}.passwordFile", login.passwordFile)
    return login.password if login.password is not None and login.password.reveal() else None


def _password_in(key: str, path: str) -> Secret:
    problem, text = "", ""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_LARGEST_PASSWORD_FILE).rstrip("\r\n")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except UnicodeDecodeError:  # holds the file's bytes, so the error below is raised apart from it
        problem = "is not UTF-8 text"
    if not problem and not text:
        problem = "is empty"
    if problem:
        raise ConfigError(
            f"{key} names {path}, which {problem}. Put the password into it, on the driver's machine.",
            key=key,
        )
    return Secret(text)
