"""Stores dead letters as lines of JSON, in a directory or a Redis stream, and returns them for a replay."""

from collections.abc import Sequence
from typing import Protocol

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.config.providers import ProviderSettings
from anchorbolt.errors import ConfigError, SerializationError
from anchorbolt.files import Locations, WorkerLocations

REDIS_STREAM = "redis-stream:"
"""The prefix of a `topology.dead.letter` that names a stream, in the Redis of the state provider's configuration."""

Letter = tuple[int, DeadLetter]
"""A dead letter, and the txid of the wave that left it out."""


class LetterStore(Protocol):
    """The dead letters of one topology. A name identifies the letters of one wave.

    No letter is deleted: a replay moves them. All methods raise `SinkUnavailable` if the location cannot be reached or
    changed.
    """

    location: str

    def append(self, txid: int, lines: Sequence[str]) -> None:
        """Store the letters of a wave. May be repeated with the same lines."""

    def names(self) -> list[str]:
        """Return the names of all letters without a requested replay, oldest first."""

    def read(self, name: str) -> str | None:
        """Return the lines of the letters with this name; None if there are no such letters."""

    def replay(self, names: Sequence[str]) -> None:
        """Make the topology process the letters with these names again. May be repeated.

        Raises `ConfigError`, before any letter is moved, if letters of one of these names already wait.
        """

    def waiting(self) -> list[str]:
        """Return the names of the letters that wait to be replayed, oldest first."""

    def read_waiting(self, name: str) -> str | None:
        """Return the lines of waiting letters with this name; None if there are no such letters."""

    def finish(self, name: str) -> None:
        """Move the letters with this name to the replayed ones. May be repeated."""


def letter_store(
    destination: object, settings: ProviderSettings, locations: Locations | None = None
) -> LetterStore | None:
    """Return the store for the value of `topology.dead.letter`; None if that is a function, or not set.

    `locations` opens a directory; None for locations that this process can open by itself.
    """
    if not isinstance(destination, str):
        return None
    if not destination.startswith(REDIS_STREAM):
        return LetterFolder((WorkerLocations() if locations is None else locations).open(destination))
    from anchorbolt.state_backends.redis.letter_stream import LetterStream
    from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider

    provider = (
        RedisClusterStateProvider(**vars(settings.redis_cluster))
        if settings.name == "redis-cluster"
        else RedisStateProvider(**vars(settings.redis))
    )
    return LetterStream(provider, destination.removeprefix(REDIS_STREAM))


def letters_of(store: LetterStore, name: str, *, waiting: bool = False) -> list[Letter]:
    """Return the letters with a name, either from those `waiting` for a replay or from all others.

    Raises `SerializationError` if the lines are not dead letters, and `ConfigError` if the name does not exist.
    """
    text = store.read_waiting(name) if waiting else store.read(name)
    if text is None:
        raise ConfigError(f"the dead letters {name} are gone from {store.location}. List the dead letters again.")
    try:
        return [DeadLetter.from_json(line) for line in text.split("\n") if line]
    except (KeyError, TypeError, ValueError) as error:
        raise SerializationError(
            f"{name} in {store.location} holds no dead letters: {type(error).__name__}: {error}. Move it away."
        ) from error
