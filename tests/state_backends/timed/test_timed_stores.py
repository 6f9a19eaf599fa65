"""A state with TTLs and timers does the same on each store."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.state_backends.timed.test_timed_state import TimedStateMachine


@pytest.mark.parametrize(
    "store",
    [
        "sqlite",
        "redis",
        pytest.param("redis_cluster", marks=pytest.mark.slow),
        pytest.param("hbase", marks=pytest.mark.slow),
    ],
)
def test_a_state_with_time_follows_the_model_on_each_store(request: pytest.FixtureRequest, store: str) -> None:
    machine = type("OnStore", (TimedStateMachine,), {"provider": request.getfixturevalue(f"{store}_provider")})
    few = settings(
        max_examples=8 if store == "hbase" else 15,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=few)
