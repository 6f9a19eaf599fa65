"""The traceback of an exception that a user's code raised."""

import importlib
import traceback
from pathlib import Path
from types import TracebackType

from anchorbolt.errors import AnchorboltError

_PACKAGE = str(Path(__file__).resolve().parents[1])
_MACHINERY = (_PACKAGE, importlib.__file__, "<frozen importlib")


def user_traceback(error: BaseException) -> str:
    """Format a traceback that begins with the user's first frame, without the frames of Anchorbolt that called it."""
    frames: TracebackType | None = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_MACHINERY):
        frames = frames.tb_next
    if frames is None and not isinstance(error, SyntaxError):  # a syntax error itself names the user's line
        frames = error.__traceback__
    shown = traceback.TracebackException(type(error), error, frames)
    # The cause of Anchorbolt's own error is internal, and would be printed first.
    return "".join(shown.format(chain=not isinstance(error, AnchorboltError))).rstrip()
