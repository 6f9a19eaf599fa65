"""The tasks' part in the check before a run: each reads and writes the run's places from its machine."""

import errno
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from anchorbolt.files import FileSystemGone, Locations, join

OF_DRIVER = "driver"
"""The file that the driver has written in the folder of the probe."""

_REFUSALS = (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError, FileSystemGone)
# As in pyarrow's message: it raises a plain `OSError`.
_KEYS_REFUSED = re.compile(r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH)\b")


class Cause(str, Enum):
    """Why a place cannot be used."""

    REFUSED = "refused"  # its file system gives an error that waiting does not fix
    ACCESS = "access"  # its file system refuses the keys or the user
    AWAY = "away"  # its file system does not answer, or waiting may fix its error


class Probed(NamedTuple):
    """A task's result for one place."""

    place: str
    host: str
    name: str  # of the file that the task wrote in the folder of the probe; empty if it could not
    problem: str  # the reason; empty if none
    cause: str = Cause.REFUSED  # of the problem; a `Cause`


def probe_places(locations: Locations, places: Sequence[str], probe: str, content: bytes) -> Iterator[Probed]:
    """Read the driver's file in the folder `probe` of each place, write a file there, and list the folder."""
    host, name = socket.gethostname(), uuid.uuid4().hex
    for place in places:
        try:
            folder, problem = locations.open(place), ""
            if folder.read(join(probe, OF_DRIVER)) != content:
                problem = "it is not shared: the driver's file is not there"
            else:
                with folder.create_passing(join(probe, name)) as file:
                    file.write(content)
                if name not in folder.names(probe):
                    problem = "what it has written is not listed"
            yield Probed(place, host, "" if problem else name, problem)
        except Exception as error:  # any error, even from a library: the result names the place and the machine
            text = str(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
            yield Probed(place, host, "", text or type(error).__name__, cause_of(error))


def cause_of(error: Exception) -> Cause:
    """Return the cause that an error shows for a place."""
    if isinstance(error, PermissionError) or _KEYS_REFUSED.search(str(error)):
        return Cause.ACCESS
    is_away = isinstance(error, OSError) and not isinstance(error, _REFUSALS) and error.errno != errno.EROFS
    return Cause.AWAY if is_away else Cause.REFUSED
