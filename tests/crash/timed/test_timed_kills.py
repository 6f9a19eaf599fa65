"""SIGKILL at named points of a job with timers, TTLs and event time: each timer fires once, and the state is exact."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from anchorbolt.testing import FaultPoint, Victim
from tests.crash.plans import IN_WAVES, ON_DRIVER, ON_WORKERS
from tests.crash.timed.runs import kill_timed
from tests.support.stores import settings_of, store_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

FEW = (FaultPoint.SEALED, FaultPoint.ROUND_ENDED, FaultPoint.DECIDED, FaultPoint.SINK_PUBLISHED)


def thorough(*values: object) -> object:
    return pytest.param(*values, marks=pytest.mark.thorough)


@pytest.mark.parametrize(
    ("provider", "points", "victim"),
    [
        ("sqlite", FEW, Victim.HERE),
        ("redis", ON_WORKERS, Victim.HERE),
        thorough("sqlite", ON_WORKERS, Victim.HERE),
        thorough("sqlite", ON_DRIVER, Victim.HERE),
        thorough("redis", IN_WAVES, Victim.WORKER),
        thorough("redis", ON_DRIVER[: ON_DRIVER.index(FaultPoint.DECIDED)], Victim.HERE),
        thorough("sqlite", ON_WORKERS, Victim.DRIVER),
    ],
)
def test_a_kill_at_each_point_fires_each_timer_once(
    tmp_path: Path, provider: str, points: Sequence[FaultPoint], victim: Victim
) -> None:
    try:
        with store_of(provider, tmp_path) as store:
            run = kill_timed(tmp_path / "run", settings_of(store), points, victim)
    except LookupError as missing:
        pytest.skip(str(missing))
    assert run.wrong == []
