"""The command's logging: warnings and errors go to standard error."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    _Handler = logging.StreamHandler[TextIO]
else:  # Python 3.10 cannot subscript it
    _Handler = logging.StreamHandler


def set_up_logging(*, verbose: bool) -> None:
    """Send log records to standard error: warnings, and with `verbose` Anchorbolt's own from INFO on.

    Without `verbose`, py4j's records of exceptions are left out, since the command prints the error itself. A root
    logger that already has a handler stays as it is.
    """
    logging.basicConfig(
        level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[_StandardError()]
    )
    logging.getLogger("anchorbolt").setLevel(logging.INFO if verbose else logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.WARNING if verbose else logging.CRITICAL)


class _StandardError(_Handler):
    """Looks up `sys.stderr` for each record, so that the live display can print the record above its own line."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr
