"""A consumer of a consumer group of one Redis stream: its commands, and the creation of a missing group.

A command is run once: after a lost reply, the caller finds its effect in the consumer's own pending entries.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from anchorbolt.errors import StateError
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.stream_entries import FIRST, Entry, advice_for, id_parts, next_id, no_stream

_log = logging.getLogger("anchorbolt.spouts")

_NO_GROUP, _EXISTS, _NO_KEY = "NOGROUP", "BUSYGROUP", "no such key"
_ADVICE = advice_for("XREADGROUP, XACK, XCLAIM, XPENDING, XGROUP, XINFO, XRANGE")


def connected(address: RedisAddress) -> RedisClient:
    """Return a client for a spout; call `release` on it. Raises `ConfigError` if a TLS file cannot be read."""
    return RedisClient(address, _ADVICE)


class StreamConsumer:
    """One consumer of one stream. Every method raises `SourceUnavailable` while Redis does not answer."""

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
