"""Redis streams for the tests of their spout: filled, looked at, and read by spouts."""

from collections.abc import Iterable
from typing import Any

from anchorbolt.spouts import RedisStreamsSpout
from tests.servers.redis_server import RedisServer

KEY = "lines"
GROUP = "words:lines"  # the default for the topology and the component of `Running`


def spout_on(server: RedisServer, streams: Any = KEY, fields: Any = ("text",), **options: Any) -> RedisStreamsSpout:
    return RedisStreamsSpout(streams, fields, **{"host": server.host, "port": server.port, **options})


def add(client: Any, *texts: str, key: str = KEY) -> list[str]:
    """Add entries; return their ids."""
    return [client.xadd(key, {"text": text}).decode() for text in texts]


def add_many(client: Any, texts: Iterable[str], key: str = KEY) -> list[str]:
    pipeline = client.pipeline(transaction=False)
    for text in texts:
        pipeline.xadd(key, {"text": text})
    return [id.decode() for id in pipeline.execute()]


def pending(client: Any, key: str = KEY, group: str = GROUP) -> dict[str, list[str]]:
    """Return the ids of the pending entries of each consumer that has some."""
    found: dict[str, list[str]] = {}
    for entry in client.xpending_range(key, group, "-", "+", 1_000_000):
        found.setdefault(entry["consumer"].decode(), []).append(entry["message_id"].decode())
    return found
