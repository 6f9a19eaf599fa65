"""Writes the dead letters of a decided wave, in the commit phase, and again after a crash."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from anchorbolt.checkpoint.letters.dead_letter import DeadLetter
from anchorbolt.checkpoint.letters.letter_store import LetterStore, letter_store
from anchorbolt.config.providers import ProviderSettings
from anchorbolt.errors import AnchorboltError, BoltError
from anchorbolt.files import Locations
from anchorbolt.util.messages import user_traceback
from anchorbolt.util.retry import RetryPolicy


class DeadLetterWriter(Protocol):
    """Writes the dead letters of a wave."""

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write the letters. Called again with the same arguments after a crash; must then have no second effect."""


class Lines:
    """Writes lines of JSON to a store."""

    def __init__(self, store: LetterStore, retry: RetryPolicy) -> None:
        self._store = store
        self._retry = retry

    def write(self, txid: int, letters: Sequence[DeadLetter]) -> None:
        """Write the letters. Raises `SinkUnavailable` if the store does not answer in time."""
        lines = [letter.as_json(txid) for letter in letters]
        self._retry.until_available(partial(self._store.append, txid, lines))


LetterFunction = Callable[[Sequence[DeadLetter], int], None]
"""Called with the dead letters of a wave, and its txid."""


class Function:
    """Passes the dead letters to a function of the user."""

    def __init__(self, function: LetterFunction) -> None:
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


def dead_letter_writer(
    destination: str | LetterFunction | None,
    settings: ProviderSettings,
    retry: RetryPolicy,
    locations: Locations | None = None,
) -> DeadLetterWriter | None:
    """Return the writer for the value of `topology.dead.letter`; None if it is not set."""
    if destination is None:
        return None
    store = letter_store(destination, settings, locations)
    if store is not None:
        return Lines(store, retry)
    assert callable(destination)
    return Function(destination)
