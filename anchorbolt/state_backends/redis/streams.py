"""Reads Redis streams: the ids of entries, ranges of entries without a consumer group, and the consumers of a group."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from anchorbolt.errors import ConfigError, SourceUnavailable, StateError
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.errors import Advice

_log = logging.getLogger("anchorbolt.spouts")

Entry = tuple[str, dict[bytes, bytes]]
"""An entry's id, and its fields. An entry that was deleted while it was pending has no fields."""

FIRST = "0-0"
"""Position before the first entry: no entry has this id or a lower one."""

_LARGEST_PART = 2**64 - 1
_WRONG_TYPE = "WRONGTYPE"


def id_parts(id: str) -> tuple[int, int]:
    """Return the two numbers of an id, by which Redis orders entries."""
    first, _, second = id.partition("-")
    return int(first), int(second or 0)


def next_id(id: str) -> str:
    """Return the lowest id after this one. Redis before 6.2 has no exclusive ranges."""
    first, second = id_parts(id)
    return f"{first}-{second + 1}" if second < _LARGEST_PART else f"{first + 1}-0"


def advice_for(commands: str) -> Advice:
    """Return the parts of messages for a spout that runs these commands."""
    return Advice(
        use_server="pass host and port instead of nodes",
        use_cluster="pass its nodes instead of host and port",
        commands=commands,
        key=None,
        unavailable=SourceUnavailable,
    )


def no_stream(address: RedisAddress, key: str, refusal: str) -> ConfigError | None:
    """Return the error if Redis refused the key because it is not a stream; None for any other refusal."""
    if _WRONG_TYPE not in refusal:
        return None
    return ConfigError(
        f"{address} has something else than a stream under the key {key!r} ({refusal}). Name a stream, or a key that "
        "is free."
    )


LAST = "+"
"""End of a range: the largest possible id."""

_ADVICE_ON_RANGES = advice_for("XRANGE, XINFO")
_ADVICE_ON_GROUPS = advice_for("XREADGROUP, XACK, XCLAIM, XPENDING, XGROUP, XINFO, XRANGE")
_NO_GROUP, _EXISTS, _NO_KEY = "NOGROUP", "BUSYGROUP", "no such key"


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
        self._client = RedisClient(address, _ADVICE_ON_RANGES)

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


def connected(address: RedisAddress) -> RedisClient:
    """Return a client for a spout; call `release` on it. Raises `ConfigError` if a TLS file cannot be read."""
    return RedisClient(address, _ADVICE_ON_GROUPS)


class StreamConsumer:
    """One consumer of a group of one stream. Every method raises `SourceUnavailable` while Redis does not answer.

    A command is run once: after a lost reply, the caller finds its effect in the consumer's own pending entries.
    """

    def __init__(self, client: RedisClient, key: str, group: str, name: str) -> None:
        self.key = key
        self.name = name
        self._client = client
        self._group = group
        self._position = FIRST  # the group has delivered all entries up to this one

    def join(self, *, from_start: bool) -> None:
        """Create the group, and the stream, if they are missing.

        Raises:
            ConfigError: The key is not a stream, or the login was refused.
        """
        self._create("0" if from_start else "$")
        self.note_position()

    def note_position(self) -> None:
        """Read the group's position, to tell an emptied stream from a removed group later."""
        for group in self._run("XINFO GROUPS", self.key) or ():
            if group["name"] == self._group.encode():
                self._advance(group["last-delivered-id"].decode())

    def read_new(self, count: int) -> list[Entry]:
        """Read at most `count` entries that the group delivers to this consumer."""
        entries = self._read(">", count)
        if entries:
            self._advance(entries[-1][0])
        return entries

    def read_own(self, after: str, count: int) -> list[Entry]:
        """Read at most `count` of this consumer's pending entries, from the first id greater than `after`."""
        return self._read(after, count)

    def pending_counts(self) -> dict[str, int]:
        """Return the number of pending entries of each consumer."""
        consumers = self._run("XINFO CONSUMERS", self.key, self._group) or ()
        return {consumer["name"].decode("utf-8", "surrogateescape"): consumer["pending"] for consumer in consumers}

    def pending_of(self, consumer: str, after: str, count: int) -> list[tuple[str, float]]:
        """Return at most `count` of a consumer's pending entries after an id: ids, and seconds since their delivery."""
        start = next_id(after)
        name = consumer.encode("utf-8", "surrogateescape")
        found = self._run("XPENDING", self.key, self._group, start, "+", count, name, parse_detail=True)
        return [(each["message_id"].decode(), each["time_since_delivered"] / 1000) for each in found or ()]

    def claim(self, ids: Sequence[str], idle_s: float) -> list[Entry]:
        """Take over these pending entries if they were delivered at least `idle_s` seconds ago.

        Deleted entries, and entries that are not pending, are left out.
        """
        found = self._run("XCLAIM", self.key, self._group, self.name, int(idle_s * 1000), *ids)
        return [(id.decode(), fields) for id, fields in found or () if id is not None and fields]

    def ack(self, ids: Iterable[str]) -> None:
        """Let the group forget these entries; entries that are not pending are ignored."""
        self._client.attempt(("XACK", self.key, self._group, *ids), self._refused)

    def _read(self, position: str, count: int) -> list[Entry]:
        reply = self._run("XREADGROUP", "GROUP", self._group, self.name, "COUNT", count, "STREAMS", self.key, position)
        return [(id.decode(), fields) for id, fields in reply[0][1]] if reply else []

    def _advance(self, position: str) -> None:
        self._position = max(self._position, position, key=id_parts)

    def _run(self, *command: Any, **options: Any) -> Any | None:
        """Run a command; if the group was missing, create it again and return None."""
        try:
            return self._client.attempt(command, self._refused, **options)
        except _GroupMissing:
            self._regain()
            return None

    def _create(self, position: str) -> None:
        with suppress(_GroupExists):
            self._client.attempt(("XGROUP", "CREATE", self.key, self._group, position, "MKSTREAM"), self._refused)

    def _regain(self) -> None:
        """Create the group again if the stream was emptied, for example by FLUSHALL or a Redis without persistence."""
        oldest = self._client.attempt(("XRANGE", self.key, "-", "+", "COUNT", 1), self._refused)
        if oldest and id_parts(oldest[0][0].decode()) <= id_parts(self._position):
            raise StateError(
                f"{self._client.address} has no group {self._group!r} of the stream {self.key!r} any longer, but it "
                f"still has entries that the group had delivered. Which of them were processed is lost with the group. "
                f"Create it again where you want the run to continue, as by XGROUP CREATE {self.key} {self._group} "
                f"{self._position} to leave out what was delivered, and start the topology again."
            )
        _log.warning(
            "stream %r at %s was emptied, and its group %r is gone with all pending entries: read it from its start",
            self.key,
            self._client.address,
            self._group,
        )
        self._position = FIRST
        self._create("0")

    def _refused(self, text: str) -> Exception | None:
        if text.startswith((_NO_GROUP, _NO_KEY)):
            return _GroupMissing()
        if text.startswith(_EXISTS):
            return _GroupExists()
        return no_stream(self._client.address, self.key, text)


class _GroupMissing(Exception):
    """The stream or its group is missing. Never leaves this module."""


class _GroupExists(Exception):
    """The group already exists. Never leaves this module."""
