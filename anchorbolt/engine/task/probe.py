"""What tasks do in the check before a run: each looks at the run's places from its machine, and writes there."""

import socket
import uuid
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anchorbolt.errors import AnchorboltError
from anchorbolt.util.locations import Locations, join

OF_DRIVER = "driver"
"""The file that the driver has written in the folder of the probe."""


class Probed(NamedTuple):
    """What a task found in one place."""

    place: str
    host: str
    sees_driver: bool
    name: str  # of the file that the task wrote in the folder of the probe; empty if it could not
    problem: str  # why not


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
            yield Probed(place, host, sees_driver, "", str(error) or type(error).__name__)
        else:
            yield Probed(place, host, sees_driver, name if sees_driver else "", "")
