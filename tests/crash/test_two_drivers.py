"""Two drivers of one topology: the older one, asleep at some points, wakes up fenced off, and changes nothing.

`make crash-test` does so at every point of the driver, on every provider.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorbolt.faults import FaultPoint
from tests.conftest import StartRedis
from tests.crash.older_driver import wrong_once_it_wakes
from tests.crash.stores import config_of
from tests.support.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("point", [FaultPoint.DECIDED, FaultPoint.SINK_FILE_MOVED])
def test_an_older_driver_that_slept_is_fenced_and_has_no_effect(tmp_path: Path, point: FaultPoint) -> None:
    config = {"directory": str(tmp_path / "run" / "state")}
    assert wrong_once_it_wakes(tmp_path, "sqlite", config, point) == []


@pytest.mark.parametrize("point", [FaultPoint.ROUND_ENDED, FaultPoint.NAMESPACE_COMMITTED])
def test_so_it_is_on_redis(tmp_path: Path, start_redis: StartRedis, point: FaultPoint) -> None:
    assert wrong_once_it_wakes(tmp_path, "redis", config_of(start_redis(**DURABLE)), point) == []
