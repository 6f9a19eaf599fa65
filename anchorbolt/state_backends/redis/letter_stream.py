"""Dead letters in a Redis stream. Letters that wait for their replay, and replayed letters, are in two hashes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from anchorbolt.errors import ConfigError, SinkUnavailable
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.errors import Advice
from anchorbolt.state_backends.redis.provider import RedisProvider

_FIELD = "letter"
_PAGE = 1000
_NOT_HIGHER = "equal or smaller"  # Redis's words for an entry's id
_ADVICE = Advice(commands="XADD, XRANGE, XDEL, HGET, HKEYS, HSETNX, HSET, HDEL", key=None, unavailable=SinkUnavailable)


class _NotHigher(Exception):
    """The stream has an entry with this id, or a higher one."""


class LetterStream:
    """A `LetterStore` whose names are txids. The ids of entries are `<txid>-<number>`, so each write is repeatable."""

    def __init__(self, provider: RedisProvider, key: str) -> None:
        """Opens a connection for each call."""
        self.location = f"the stream {key!r} of {provider.address}"
        self._address = provider.address
        self._key = key
        self._waiting, self._done = f"{key}:replay", f"{key}:replayed"  # hashes: the lines of each txid

    def append(self, txid: int, lines: Sequence[str]) -> None:
        """Append the lines of a wave. Raises `SinkUnavailable` also if another writer has appended to the stream."""
        with self._client() as client:
            for number, line in enumerate(lines, start=1):
                self._add(client, f"{txid}-{number}", line)

    def _add(self, client: RedisClient, id: str, line: str) -> None:
        try:
            client.attempt(
                ("XADD", self._key, id, _FIELD, line), lambda text: _NotHigher() if _NOT_HIGHER in text else None
            )
        except _NotHigher:
            if [each for _, each in self._entries(client, id, id)] != [line]:
                raise SinkUnavailable(
                    f"{self.location} has entries after {id} already, or another one there, so another topology, or "
                    "another history of this one, has written it. Set topology.dead.letter to a stream of this "
                    "topology's own."
                ) from None

    def names(self) -> list[str]:
        with self._client() as client:
            return list(dict.fromkeys(id.partition("-")[0] for id, _ in self._entries(client, "-", "+")))

    def read(self, name: str) -> str | None:
        with self._client() as client:
            return "\n".join(line for _, line in self._entries(client, name, name)) or None

    def replay(self, names: Sequence[str]) -> None:
        with self._client() as client:
            entries = {name: list(self._entries(client, name, name)) for name in names}
            lines = {name: "\n".join(line for _, line in found) for name, found in entries.items()}
            for name in names:
                waits = client.command(None, "HGET", self._waiting, name)
                if waits is not None and waits.decode() != lines[name]:
                    raise ConfigError(
                        f"{self._waiting} has letters of txid {name} already. Let them be replayed first."
                    )
            for name, found in entries.items():
                if found:
                    client.command(None, "HSETNX", self._waiting, name, lines[name])
                    client.command(None, "XDEL", self._key, *(id for id, _ in found))

    def waiting(self) -> list[str]:
        with self._client() as client:
            return sorted((name.decode() for name in client.command(None, "HKEYS", self._waiting)), key=int)

    def read_waiting(self, name: str) -> str | None:
        with self._client() as client:
            lines = client.command(None, "HGET", self._waiting, name)
        return None if lines is None else str(lines, "utf-8", "replace")

    def finish(self, name: str) -> None:
        with self._client() as client:
            lines = client.command(None, "HGET", self._waiting, name)
            if lines is not None:
                client.command(None, "HSET", self._done, name, lines)
                client.command(None, "HDEL", self._waiting, name)

    def _entries(self, client: RedisClient, first: str, last: str) -> Iterator[tuple[str, str]]:
        """Yield the ids and lines of the entries from one id to another; a txid stands for all its entries."""
        while True:
            found: Any = client.command(None, "XRANGE", self._key, first, last, "COUNT", _PAGE)
            for id, fields in found:
                yield id.decode(), str(fields.get(_FIELD.encode(), b""), "utf-8", "replace")
            if len(found) < _PAGE:
                return
            first = f"({found[-1][0].decode()}"

    @contextmanager
    def _client(self) -> Iterator[RedisClient]:
        client = RedisClient(self._address, _ADVICE)
        try:
            yield client
        finally:
            client.release()
