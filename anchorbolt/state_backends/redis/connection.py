"""One connection to one Redis server, on which commands are sent ahead of their replies. It is never made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import hiredis

from anchorbolt.errors import AnchorboltError, StateUnavailable
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.errors import REDIS_ERRORS, Advice, translated


class RedisConnection:
    """A connection of redis-py that retries nothing: after an error it is closed, and of no use. Not thread-safe."""

    def __init__(self, address: RedisAddress, namespace: str, advice: Advice, connection: Any) -> None:
        """Take over a connection that is open; errors are of `namespace` and say what `advice` says."""
        self._address = address
        self._namespace = namespace
        self._advice = advice
        self._connection: Any = connection

    def send(self, *commands: Sequence[bytes | str]) -> None:
        """Send commands; each has a reply, and they come in the same order.

        No numbers: a signal while hiredis (3.0 to 3.5 at least) formats one ends the process with a segmentation fault.
        """
        open_one = self._opened
        # By hiredis itself: redis-py looks at the type of each argument first, which takes as long as the packing.
        packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
        try:
            open_one.send_packed_command(packed, check_health=False)
        except REDIS_ERRORS as error:
            self.fail(error)

    def receive(self) -> Any:
        """Return the next reply."""
        try:
            return self._opened.read_response()
        except REDIS_ERRORS as error:
            self.fail(error)

    def fail(self, error: Exception) -> NoReturn:
        """Close it, and raise what one of redis-py's errors means."""
        self.close()
        raise self._translated(error) from error

    def close(self) -> None:
        """End it, with all its watches. May be called more than once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    @property
    def is_open(self) -> bool:
        """Whether it is of use: neither closed nor lost."""
        return self._connection is not None

    @property
    def _opened(self) -> Any:
        # redis-py would connect again by itself, and what was watched would not be.
        if self._connection is None:
            raise StateUnavailable(
                f"the connection to {self._address} was lost: start again", namespace=self._namespace
            )
        return self._connection

    def _translated(self, error: Exception) -> AnchorboltError:
        return translated(self._address, self._namespace, error, self._advice)
