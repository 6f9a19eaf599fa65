"""Common parts of error messages."""

import importlib
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType

from anchorbolt.errors import AnchorboltError

_PACKAGE = str(Path(__file__).resolve().parents[1])
_FIELDS = {"txid": "txid", "component": "component", "task": "task_index", "key": "key", "namespace": "namespace"}
_MACHINERY = (_PACKAGE, importlib.__file__, "<frozen importlib")


def shortened(value: object, limit: int = 80) -> str:
    """Return at most `limit` characters of a value's `repr`, for a message; never raises."""
    try:
        text = repr(value)
    except Exception:  # a user's __repr__ may raise anything
        return "(its repr raises)"
    return begun(text, limit)


def begun(text: str, most: int) -> str:
    """Return at most `most` characters of a text, followed by `…` if it is longer."""
    return text if len(text) <= most else f"{text[:most]}…"


def described(error: BaseException) -> str:
    """Return the class and the text of an exception; never raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # a user's __str__ may raise anything
        return f"{type(error).__name__} (its text cannot be shown)"


def bounded(text: str, most: int) -> str:
    """Return a text, or the beginning and end of a longer one, with about `most` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-(most // 2) :]}"


def counted(number: int, noun: str) -> str:
    """Return "1 tuple" or "2,000 tuples"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def last_line(text: str) -> str:
    """Return the last non-empty line of a text, with a leading `…` if `bounded` has cut its beginning."""
    before, _, line = text.rstrip().rpartition("\n")
    return f"…{line}" if before.endswith("\n…") else line


def reason_of(error: AnchorboltError) -> str:
    """Return one line about an error, for the log: the user's exception, if any, and the task that raised it."""
    raised, message = last_line(getattr(error, "user_traceback", "")), last_line(error.message)
    return message if not raised or raised in message else f"{raised}, {message}"


def fields_of(error: BaseException) -> dict[str, object]:
    """Return the attributes of an error as fields of an event: `txid`, `component`, `task`, `key`, `namespace`."""
    found = {field: getattr(error, name, None) for field, name in _FIELDS.items()}
    return {field: value for field, value in found.items() if value is not None}


def printable(text: str) -> str:
    """Escape characters that UTF-8 cannot encode, such as bytes of a file's name that are not text."""
    return text.encode("utf-8", "backslashreplace").decode()


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return " Did you mean 'NEAREST'?", or an empty string if no known name is similar enough.

    `cutoff`, between 0 and 1, is the minimum similarity for `difflib.get_close_matches`.
    """
    matches = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {matches[0]!r}?" if matches else ""


def user_traceback(error: BaseException) -> str:
    """Format a traceback that begins with the user's first frame, without the frames of Anchorbolt that called it."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):  # a syntax error itself names the user's line
        frames = error.__traceback__
    shown = traceback.TracebackException(type(error), error, frames)
    # The cause of Anchorbolt's own error is internal, and would be printed first. The frames below its API are too.
    is_ours = isinstance(error, AnchorboltError)
    while is_ours and len(shown.stack) > 1 and shown.stack[-1].filename.startswith(_PACKAGE):
        shown.stack.pop()
    return "".join(shown.format(chain=not is_ours)).rstrip()
