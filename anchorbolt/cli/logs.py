"""Where the command's log goes: warnings and worse to standard error, as it is at the time of each record."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:  # on Python 3.10 it cannot be subscripted
    _Handler = logging.StreamHandler


def set_up_logging(*, verbose: bool) -> None:
    """Send log records to standard error: warnings, and with `verbose` Anchorbolt's own from INFO on.

    Without `verbose`, what py4j says of an exception that passes through it is left out: the command shows the error
    itself. Leaves a root logger that has a handler already as it is.
    """
    logging.basicConfig(
        level=logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        handlers=[_StandardError()],
    )
    logging.getLogger("anchorbolt").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING if verbose else logging.CRITICAL)


class _StandardError(_Handler):
    """Asks for the stream each time, so that the live display can put a record above its own line."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
