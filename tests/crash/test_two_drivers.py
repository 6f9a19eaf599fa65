"""Two drivers of one topology: the older one, asleep at some point, wakes up fenced, and changes nothing.

`make crash-test` does so at every point of the driver, on every provider.
"""

from pathlib import Path

import pytest

from anchorbolt.faults.points import FaultPoint
from tests.crash.older_driver import wrong_once_it_wakes
from tests.support.stores import store_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.usefixtures("redis_program")
@pytest.mark.parametrize(("provider", "point"), [("redis", FaultPoint.ROUND_ENDED), ("sqlite", FaultPoint.WAVE_ENDED)])
def test_a_driver_that_slept_is_fenced_and_has_no_effect(tmp_path: Path, provider: str, point: FaultPoint) -> None:
    with store_of(provider, tmp_path) as store:
        assert wrong_once_it_wakes(tmp_path, store, point) == []
