"""Writes out the dead letters of a decided wave, in the commit phase; and does so again after a crash."""

from collections.abc import Callable, Sequence
from typing import Protocol

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.config.providers import ProviderSettings
from anchorbolt.errors import AnchorboltError, BoltError, SinkUnavailable
from anchorbolt.util.locations import Folder, open_folder
from anchorbolt.util.messages import user_traceback
from anchorbolt.util.retry import RetryPolicy


class DeadLetterWriter(Protocol):
    """Writes the dead letters of a wave."""

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write them; called again with the same arguments after a crash, and then without a second effect."""


class JsonLines:
    """Writes a file of JSON lines for each wave with dead letters: `letters-<txid>.jsonl`."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write the wave's file. Raises `SinkUnavailable` if it cannot be written."""
        lines = "".join(f"{letter.as_json(txid)}\n" for letter in letters)
        try:
            self._folder.replace(f"letters-{txid:012d}.jsonl", lines.encode())
        except OSError as error:
            raise SinkUnavailable(
                f"{len(letters)} dead letters of txid {txid} cannot be written to {self._folder.location}: {error}. "
                "Make room there, or make it writable."
            ) from error


class RedisStream:
    """Adds each letter to a Redis stream, as JSON in the field `letter`."""

    def __init__(self, settings: ProviderSettings, key: str, retry: RetryPolicy) -> None:
        from anchorbolt.state_backends.redis.letter_stream import LetterStream
        from anchorbolt.state_backends.redis.provider import RedisClusterStateProvider, RedisStateProvider

        provider = (
            RedisClusterStateProvider(**vars(settings.redis_cluster))
            if settings.name == "redis-cluster"
            else RedisStateProvider(**vars(settings.redis))
        )
        self._stream = LetterStream(provider, key, retry)

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Append the letters. Raises `SinkUnavailable` if Redis does not answer in time."""
        self._stream.append(txid, [letter.as_json(txid) for letter in letters])


class Function:
    """Passes the dead letters to a function of the user."""

    def __init__(self, function: Callable[[Sequence[DeadLetter], int], None]) -> None:
        self._function = function

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Call the function. Raises `BoltError` if it raises."""
        try:
            self._function(letters, txid)
        except AnchorboltError:
            raise
        except Exception as error:
            text = user_traceback(error)
            raise BoltError(
                f"{text}\n\nraised by the function of topology.dead.letter, for txid {txid}. The wave is decided "
                "and its state committed; the next start calls it again, before anything else.",
                component=letters[0].component,
                task_index=letters[0].task_index,
                user_traceback=text,
            ) from error


LetterFunction = Callable[[Sequence[DeadLetter], int], None]
"""Called with the dead letters of a wave, and its txid."""


REDIS_STREAM = "redis-stream:"
"""The beginning of a `topology.dead.letter` that names a stream, in the Redis of the state provider's configuration."""


def dead_letter_writer(
    destination: str | LetterFunction | None, settings: ProviderSettings, retry: RetryPolicy
) -> DeadLetterWriter | None:
    """Return the writer for the value of `topology.dead.letter`; None if it is not set."""
    if destination is None:
        return None
    if not isinstance(destination, str):
        return Function(destination)
    if destination.startswith(REDIS_STREAM):
        return RedisStream(settings, destination.removeprefix(REDIS_STREAM), retry)
    return JsonLines(open_folder(destination))
