"""What tasks do in the check before a run: each looks at the run's places from its machine, and writes there."""

import errno
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from anchorbolt.errors import AnchorboltError
from anchorbolt.files import FileSystemGone, Locations, NoWebServer, join

OF_DRIVER = "driver"
"""The file that the driver has written in the folder of the probe."""


_REFUSALS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError)
# As pyarrow has it, which raises a plain `OSError` for it.
_KEYS_REFUSED = re.compile(r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH)\b")


class Cause(str, Enum):
    """Why a place cannot be used."""

    REFUSED = "refused"  # its file system says what does not change by waiting
    ACCESS = "access"  # its file system refuses the keys or the user
    GONE = "gone"  # its store has no such bucket
    AWAY = "away"  # its file system gave no answer, or one that may change by itself
    NO_WEB_SERVER = "no web server"  # nothing listens at the web address of its HDFS


class Probed(NamedTuple):
    """What a task found in one place."""

    place: str
    host: str
    sees_driver: bool
    name: str  # of the file that the task wrote in the folder of the probe; empty if it could not
    problem: str  # why not
    cause: str = Cause.REFUSED  # of the problem; a `Cause`


def probe_places(locations: Locations, places: Sequence[str], probe: str, content: bytes) -> Iterator[Probed]:
    """Write a file in the folder `probe` of each place, if it holds the driver's file with this content."""
    host, name = socket.gethostname(), uuid.uuid4().hex
    for place in places:
        sees_driver = False
        try:
            folder = locations.open(place)
            sees_driver = folder.read(join(probe, OF_DRIVER)) == content
            if sees_driver:
                with folder.create_passing(join(probe, name)) as file:
                    file.write(content)
        except (OSError, AnchorboltError) as error:
            cause = cause_of(error) if isinstance(error, OSError) else Cause.REFUSED
            yield Probed(place, host, sees_driver, "", str(error) or type(error).__name__, cause)
        except Exception as error:  # of a library that is used there only: name the place and the machine
            yield Probed(place, host, sees_driver, "", f"{type(error).__name__}: {error}")
        else:
            yield Probed(place, host, sees_driver, name if sees_driver else "", "")


def cause_of(error: OSError) -> Cause:
    """Return what the error of a file system says about a place."""
    if isinstance(error, FileSystemGone):
        return Cause.GONE
    if isinstance(error, NoWebServer):
        return Cause.NO_WEB_SERVER
    if isinstance(error, PermissionError) or _KEYS_REFUSED.search(str(error)):
        return Cause.ACCESS
    return Cause.REFUSED if isinstance(error, _REFUSALS) or error.errno == errno.EROFS else Cause.AWAY
