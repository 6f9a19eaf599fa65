"""The worker's side of long calls: the watchdog tells the driver which calls of a bolt or emitter have not returned."""

import logging
import os
import socket
from collections.abc import Sequence
from functools import partial

from anchorbolt.engine.spark.intake.client import IntakeAddress, frame_of
from anchorbolt.engine.task.watchdog import LongCall, tell_long_calls
from anchorbolt.serialization import pack

_log = logging.getLogger("anchorbolt.engine")

_TIMEOUT_S = 2.0


def report_long_calls(address: IntakeAddress | None) -> None:
    """Have this process tell the driver at this address of long calls, from now on; nobody without one."""
    tell_long_calls(None if address is None else partial(_tell, address))


def _tell(address: IntakeAddress, calls: Sequence[LongCall]) -> None:
    """Send the calls; an empty list says that all have returned. A driver that cannot be reached learns of none."""
    request = pack([f"{socket.gethostname()}-{os.getpid()}", [list(call) for call in calls]])
    try:
        with socket.create_connection((address.host, address.port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(address.secret + frame_of(request))
    except OSError as error:
        _log.debug("the driver was not told of calls that have not returned: %s", error)
