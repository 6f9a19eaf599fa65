"""Two drivers of one topology: the older one, asleep at some points, wakes up fenced off, and changes nothing.

`make crash-test` does so at every point of the driver, on every provider.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anchorbolt.faults.points import FaultPoint
from tests.conftest import StartRedis
from tests.crash.older_driver import wrong_once_it_wakes
from tests.crash.stores import config_of
from tests.support.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_one_that_slept_before_its_decision_is_fenced_and_has_no_effect(
    tmp_path: Path, start_redis: StartRedis
) -> None:
    config = config_of(start_redis(**DURABLE))
    assert wrong_once_it_wakes(tmp_path, "redis", config, FaultPoint.ROUND_ENDED) == []


def test_one_that_slept_after_its_wave_is_fenced_where_spark_refuses_its_next_batch(tmp_path: Path) -> None:
    config = {"directory": str(tmp_path / "run" / "state")}
    assert wrong_once_it_wakes(tmp_path, "sqlite", config, FaultPoint.WAVE_ENDED) == []
