"""A Redis Cluster whose masters die and whose slots are moved while the job runs on Spark."""

from __future__ import annotations

import pytest

from anchorbolt.faults.injection import Fault, FaultAction
from anchorbolt.faults.points import FaultPoint
from tests.conftest import StartRedisCluster
from tests.crash.conftest import AccompanyRun
from tests.crash.runs import AccompaniedRun
from tests.crash.stores import config_of_cluster, contents_of, let_go_and_wait
from tests.support.redis_cluster import QUICK_TO_FAIL_OVER, RedisCluster
from tests.support.redis_server import DURABLE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

STEPS = [
    FaultPoint.TASK_ALIGNED,
    FaultPoint.SLICE_STAGED,
    FaultPoint.SEALED,
    FaultPoint.ROUND_ENDED,
    FaultPoint.DECIDED,
    FaultPoint.NAMESPACE_COMMITTED,
    FaultPoint.SINK_PUBLISHED,
]
COUNT = "{crash:count-0}"
DECISION = "{crash:$checkpointspout-0}"


@pytest.fixture
def cluster(start_redis_cluster: StartRedisCluster) -> RedisCluster:
    return start_redis_cluster(**DURABLE, **QUICK_TO_FAIL_OVER)


def held_at(points: list[FaultPoint]) -> list[Fault]:
    """Let the n-th wave stand still at the n-th point."""
    return [
        Fault(point, FaultAction.HANG, txid=txid, component=None if point.on_driver else "count")
        for txid, point in enumerate(points, 1)
    ]


def test_a_master_killed_at_any_step_is_replaced_by_its_replica_and_nothing_is_lost(
    accompany: AccompanyRun, cluster: RedisCluster
) -> None:
    run = accompany("redis-cluster", config_of_cluster(cluster), waves=len(STEPS) + 2, faults=held_at(STEPS))
    driver = run.start()
    for number, point in enumerate(STEPS):
        run.wait_for_fault(number)
        # All that was acknowledged is on the replica: those who wait get on with it.
        cluster.wait_until_in_step()
        killed = cluster.master_of(DECISION if point.on_driver else COUNT)
        killed.kill()
        run.faults.release(
            number
        )  # whether the run meets the gap before the replica takes over is a matter of luck
        cluster.wait_until_served()
        killed.start()
    assert driver.end() == 0, repr(driver)
    assert run.differences() == []


@pytest.mark.thorough
def test_slots_moved_at_any_step_are_followed(accompany: AccompanyRun, cluster: RedisCluster) -> None:
    run = accompany("redis-cluster", config_of_cluster(cluster), waves=len(STEPS) + 2, faults=held_at(STEPS))
    driver = run.start()
    for number in range(len(STEPS)):
        run.wait_for_fault(number)
        for key in (COUNT, DECISION):
            source = cluster.master_of(key)
            target = next(server for server in cluster.current_masters() if server is not source)
            cluster.move(cluster.slot_of(key), source, target)
        run.faults.release(number)
    assert driver.end() == 0, repr(driver)
    assert run.differences() == []


@pytest.mark.thorough
@pytest.mark.parametrize("point", [FaultPoint.TASK_ALIGNED, FaultPoint.DECIDED], ids=["prepare", "commit"])
def test_a_slot_that_is_half_moved_is_waited_for(
    accompany: AccompanyRun, cluster: RedisCluster, point: FaultPoint
) -> None:
    run = accompany("redis-cluster", config_of_cluster(cluster), faults=held_at([point]))
    driver = run.start()
    run.wait_for_fault(0)
    slot, source = cluster.slot_of(COUNT), cluster.master_of(COUNT)
    target = next(server for server in cluster.current_masters() if server is not source)
    cluster.begin_move(slot, source, target)
    assert cluster.move_keys(slot, source, target, 1) == 1
    let_go_and_wait(run, driver, 0)
    assert "moving the slot" in driver.err
    while cluster.move_keys(slot, source, target):
        pass
    cluster.end_move(slot, target)
    assert driver.end() == 0, repr(driver)
    assert run.differences() == []


def lose(run: AccompaniedRun, cluster: RedisCluster, key: str) -> dict[bytes, dict[bytes, bytes]]:
    """Let a wave pass whose writes never reach the replica of the key's master; lose that; return what is left."""
    run.wait_for_fault(0)
    cluster.wait_until_in_step()
    master = cluster.master_of(key)
    cluster.cut_off(cluster.replica_of(master))
    run.faults.release(0)
    run.wait_for_fault(1)
    master.kill()
    cluster.resume()
    cluster.wait_until_served()
    left = contents_of(*cluster.current_masters())
    run.faults.release(1)
    return left


@pytest.mark.thorough
@pytest.mark.parametrize("key", [COUNT, DECISION], ids=["a task's state", "the decision"])
def test_acknowledged_writes_that_a_fail_over_lost_halt_the_run_and_nothing_is_written(
    accompany: AccompanyRun, cluster: RedisCluster, key: str
) -> None:
    faults = held_at([FaultPoint.WAVE_ENDED, FaultPoint.WAVE_ENDED])
    run = accompany("redis-cluster", config_of_cluster(cluster), faults=faults)
    driver = run.start()
    left = lose(run, cluster, key)
    assert driver.end() == 4, repr(driver)
    assert contents_of(*cluster.current_masters()) == left
    again = run.start(faulty=False)
    assert again.end() == 4, repr(again)
    assert contents_of(*cluster.current_masters()) == left
    assert "expected" in again.err or "must be at" in again.err, repr(again)
