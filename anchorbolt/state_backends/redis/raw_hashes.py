"""Any hash of a Redis or a Redis Cluster as it is, whoever wrote it. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from anchorbolt.config.providers import PROVIDER_CONFIG
from anchorbolt.errors import ConfigError, StateError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.cluster_provider import RedisClusterStateProvider
from anchorbolt.state_backends.redis.hash_pages import hash_pages
from anchorbolt.state_backends.redis.provider import RedisStateProvider


class RawHashes:
    """The hashes where a provider keeps its state; to be closed."""

    def __init__(self, provider: StateProvider) -> None:
        """Connect to nothing yet.

        Raises:
            ConfigError: The provider is none of Redis, or a TLS file cannot be read.
        """
        if not isinstance(provider, RedisStateProvider | RedisClusterStateProvider):
            raise ConfigError(
                f"hashes are in Redis, and the configuration names {provider.describe()}. Set topology.state.provider "
                "to redis or redis-cluster.",
                key=PROVIDER_CONFIG,
            )
        self._client = RedisClient.acquire(provider.address)

    def __enter__(self) -> RawHashes:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.release()

    def count(self, key: str) -> int:
        """Return how many fields a hash has; 0 where there is none.

        Raises:
            StateError: The key holds something else.
            ConfigError: It is no text that Storm can have as a name.
        """
        if any("\ud800" <= character <= "\udfff" for character in key):  # so Python shows other bytes than UTF-8
            raise ConfigError(f"{key!r} is not UTF-8, as names are that Storm gave. Name a namespace of Storm's.")
        kind = self._client.command(key, "TYPE", key)
        name = kind.decode() if isinstance(kind, bytes) else str(kind)
        if name not in ("hash", "none"):
            raise StateError(f"{key!r} holds a {name}, not a hash. Name a namespace of Storm's.", namespace=key)
        return int(self._client.command(key, "HLEN", key))

    def pages(self, key: str, page_size: int = 1000) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the fields and values of a hash in pages; nothing where there is none."""
        for page in hash_pages(self._client, key, key, page_size):
            yield list(page.items())
