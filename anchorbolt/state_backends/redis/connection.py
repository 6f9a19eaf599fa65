"""One connection to one Redis server, on which commands are sent ahead of their replies. It never reconnects."""

from collections.abc import Sequence
from typing import Any, NoReturn

import hiredis

from anchorbolt.errors import StateUnavailable
from anchorbolt.state_backends.redis.addresses import RedisAddress
from anchorbolt.state_backends.redis.errors import REDIS_ERRORS, Advice, translated


class RedisConnection:
    """An open connection of redis-py without retries. An error closes it. Not thread-safe."""

    def __init__(self, address: RedisAddress, namespace: str, advice: Advice, connection: Any) -> None:
        self._address = address
        self._namespace = namespace
        self._advice = advice
        self._connection: Any = connection

    def send(self, *commands: Sequence[bytes | str]) -> None:
        """Send commands, whose replies come in the same order.

        Arguments must not be numbers: a signal while hiredis (3.0 to 3.5 at least) formats a number ends the process
        with a segmentation fault.
        """
        connection = self._opened
        # hiredis packs the commands: redis-py would check the type of each argument, which doubles the time.
        packed = [hiredis.pack_command(tuple(command)) for command in commands]  # type: ignore[arg-type]
        try:
            connection.send_packed_command(packed, check_health=False)
        except REDIS_ERRORS as error:
            self.fail(error)

    def receive(self) -> Any:
        try:
            return self._opened.read_response()
        except REDIS_ERRORS as error:
            self.fail(error)

    def fail(self, error: Exception) -> NoReturn:
        """Close the connection, and raise the translation of redis-py's error."""
        self.close()
        raise translated(self._address, self._namespace, error, self._advice) from error

    def close(self) -> None:
        """Close the connection, which ends its watches. May be called more than once."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    @property
    def is_open(self) -> bool:
        """Whether the connection is neither closed nor lost."""
        return self._connection is not None

    @property
    def _opened(self) -> Any:
        # redis-py would reconnect by itself, without the watches.
        if self._connection is None:
            raise StateUnavailable(
                f"the connection to {self._address} was lost: start again", namespace=self._namespace
            )
        return self._connection
