"""Appends lines to a Redis stream, each once however often it is tried: dead letters."""

from collections.abc import Sequence
from functools import partial

from anchorbolt.errors import SinkUnavailable
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.errors import Advice
from anchorbolt.state_backends.redis.provider import RedisProvider
from anchorbolt.util.retry import RetryPolicy

_FIELD = "letter"
_NOT_HIGHER = "equal or smaller"  # what Redis says of an entry's id
_ADVICE = Advice(commands="XADD, XRANGE", key=None, unavailable=SinkUnavailable)


class _NotHigher(Exception):
    """The stream has an entry with this id, or a higher one."""


class LetterStream:
    """One stream, written by one topology. The ids are `<txid>-<number>`, which makes each write repeatable."""

    def __init__(self, provider: RedisProvider, key: str, retry: RetryPolicy) -> None:
        """Connects at the first write."""
        self._address = provider.address
        self._key = key
        self._retry = retry

    def append(self, txid: int, lines: Sequence[str]) -> None:
        """Append the lines of a wave; those that an earlier call has appended are left as they are.

        Raises `SinkUnavailable` if Redis does not answer in time, or another writer has appended to the stream.
        """
        client = RedisClient(self._address, _ADVICE)
        try:
            for number, line in enumerate(lines, start=1):
                self._retry.until_available(partial(self._add, client, f"{txid}-{number}", line))
        finally:
            client.release()

    def _add(self, client: RedisClient, id: str, line: str) -> None:
        try:
            client.attempt(
                ("XADD", self._key, id, _FIELD, line), lambda text: _NotHigher() if _NOT_HIGHER in text else None
            )
        except _NotHigher:
            if not client.command(None, "XRANGE", self._key, id, id):
                raise SinkUnavailable(
                    f"the stream {self._key!r} has entries after {id} already, so another topology, or another history "
                    "of this one, has written there. Set topology.dead.letter to a stream of this topology's own."
                ) from None
