"""Reads Redis streams by ranges of entry ids, without a consumer group. Changes nothing in Redis."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.stream_entries import FIRST, Entry, advice_for, next_id, no_stream

LAST = "+"
"""End of a range: the largest possible id."""

_ADVICE = advice_for("XRANGE, XINFO")
_NO_KEY = "no such key"


@dataclass(frozen=True)
class StreamEnd:
    """The end of a stream, after a position.

    Attributes:
        has_more: Whether there is an entry after the position.
        last_id: The highest id that the stream has ever had; None if the stream is missing, or the id was not
            requested.
    """

    has_more: bool
    last_id: str | None


class StreamRanges:
    """Streams of one server or cluster. A missing stream counts as empty.

    Connects on first use. Methods raise `SourceUnavailable` if Redis does not answer, and `ConfigError` if a key is not
    a stream or the login was refused. They may be repeated.
    """

    def __init__(self, address: RedisAddress) -> None:
        """Raises `ConfigError` if a file of TLS cannot be read."""
        self._client = RedisClient(address, _ADVICE)

    def __str__(self) -> str:
        return str(self._client.address)

    def read(self, key: str, first: str, last: str, most: int) -> list[Entry]:
        """Return the entries from one id to another, both included, but at most the first `most` of them."""
        return [(id.decode(), fields) for id, fields in self._run(key, *_range(key, first, last, most))]

    def last_id(self, key: str) -> str | None:
        """Return the highest id that the stream has ever had, even if deleted; None if the stream is missing."""
        with suppress(_StreamMissing):
            return _last_id(self._run(key, *_information(key)))
        return None

    def ends(self, positions: Mapping[str, str], *, with_last_ids: bool) -> dict[str, StreamEnd]:
        """Check many streams in one round trip to each server.

        A stream that has moved to another server costs one more; with last ids, a missing stream does too.

        Args:
            positions: The id after which to check, for each key.
            with_last_ids: Whether to ask for last ids. It is not read for a stream with the position `FIRST`.
        """
        asked = [key for key, position in positions.items() if with_last_ids and position != FIRST]
        commands = [_range(key, next_id(position), LAST, 1) for key, position in positions.items()]
        replies = self._client.at_once(commands + [_information(key) for key in asked])
        last_ids = {
            key: self.last_id(key) if found is None else _last_id(found)
            for key, found in zip(asked, replies[len(commands) :], strict=True)
        }
        ends = {}
        for (key, _), command, found in zip(positions.items(), commands, replies, strict=False):
            has_more = bool(self._run(key, *command) if found is None else found)
            ends[key] = StreamEnd(has_more, last_ids.get(key))
        return ends

    def close(self) -> None:
        """Close the connections."""
        self._client.release()

    def _run(self, key: str, *command: Any) -> Any:
        def refused(text: str) -> Exception | None:
            return _StreamMissing() if _NO_KEY in text else no_stream(self._client.address, key, text)

        return self._client.attempt(command, refused)


class _StreamMissing(Exception):
    """Never leaves this module."""


def _range(key: str, first: str, last: str, most: int) -> tuple[Any, ...]:
    return "XRANGE", key, first, last, "COUNT", most


def _information(key: str) -> tuple[Any, ...]:
    return "XINFO STREAM", key


def _last_id(information: dict[str, Any]) -> str:
    last_id: bytes = information["last-generated-id"]
    return last_id.decode()
