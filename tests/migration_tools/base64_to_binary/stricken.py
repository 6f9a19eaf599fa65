"""Ends a migration at a chosen command to Redis, as a kill does: nothing is cleaned up."""

import pytest

from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.state_backends.redis.storm_hashes import HashConnection


class Killed(BaseException):
    """The migration was ended."""


class Stricken:
    """Raises `Killed` before or after the nth command of a name, and at each command that follows."""

    def __init__(self, patched: pytest.MonkeyPatch, command: str, nth: int, *, after: bool) -> None:
        self.left = nth
        send, single = HashConnection.send, RedisClient.command

        def strike(name: object) -> bool:
            self.left -= name == command
            return name == command and self.left == 0

        def sent(connection: HashConnection, *commands: list[bytes | str]) -> None:
            if self.left <= 0:  # a killed process says nothing any more
                raise Killed
            struck = any(list(map(strike, (each[0] for each in commands))))
            if struck and not after:
                raise Killed
            send(connection, *commands)
            if struck:
                connection.receive()
                raise Killed

        def ran(client: RedisClient, namespace: str, *command: object) -> object:
            if self.left <= 0:
                raise Killed
            return single(client, namespace, *command)

        patched.setattr(HashConnection, "send", sent)
        patched.setattr(RedisClient, "command", ran)
