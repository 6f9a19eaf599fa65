"""Keeps dead letters as lines of JSON, in a directory or a Redis stream, and hands them to the topology again."""

from collections.abc import Sequence
from typing import Protocol

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.letters.letter_folder import LetterFolder
from anchorbolt.config.providers import ProviderSettings
from anchorbolt.errors import ConfigError, SerializationError
from anchorbolt.files import Locations, WorkerLocations

REDIS_STREAM = "redis-stream:"
"""The beginning of a `topology.dead.letter` that names a stream, in the Redis of the state provider's configuration."""

Letter = tuple[int, DeadLetter]
"""A dead letter, and the txid of the wave that left it out."""


class LetterStore(Protocol):
    """The dead letters of one topology. A name stands for those of one wave.

    No letter is deleted: a replay moves them. All methods raise `SinkUnavailable` if the place cannot be reached or
    changed.
    """

    location: str

    def append(self, txid: int, lines: Sequence[str]) -> None:
        """Keep the letters of a wave. May be repeated with the same lines."""

    def names(self) -> list[str]:
        """Return the names of all letters that no replay was asked for, oldest first."""

    def read(self, name: str) -> str | None:
        """Return the lines of the letters with this name; None if there are no such letters."""

    def replay(self, names: Sequence[str]) -> None:
        """Have the topology process the letters with these names again. May be repeated.

        Raises `ConfigError` if letters of such a name wait already, before any letter is moved.
        """

    def waiting(self) -> list[str]:
        """Return the names of the letters that wait to be replayed, oldest first."""

    def read_waiting(self, name: str) -> str | None:
        """Return the lines of waiting letters with this name; None if there are no such letters."""

    def finish(self, name: str) -> None:
        """Move the letters with this name to those that were replayed. May be repeated."""


def letter_store(
    destination: object, settings: ProviderSettings, locations: Locations | None = None
) -> LetterStore | None:
    """Return the store for the value of `topology.dead.letter`; None if that is a function, or not set.

    `locations` opens a directory; None for what this process can open by itself.
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
    """Return the letters of a name, of those that are not to be replayed or of those that are `waiting`.

    Raises `SerializationError` if these are no dead letters, and `ConfigError` if there is nothing of this name.
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
