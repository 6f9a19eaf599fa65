"""A Redis Cluster and an HBase whose processes die, or whose slots are moved, while the job runs on Spark."""

import pytest

from anchorbolt.testing import FaultPoint
from tests.conftest import StartHBase, StartRedisCluster
from tests.crash.conftest import AccompanyRun
from tests.crash.plans import STEPS, hangs
from tests.crash.store_faults.harm import assert_refused, contents_of, let_go_and_wait
from tests.servers.hbase_server import MASTER, REGION_SERVER, THRIFT, ZOOKEEPER
from tests.servers.redis_cluster import QUICK_TO_FAIL_OVER, RedisCluster
from tests.servers.redis_server import DURABLE
from tests.support.stores import config_of

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]
COUNT = "{crash:count-0}"
DECISION = "{crash:$checkpointspout-0}"


@pytest.fixture
def cluster(start_redis_cluster: StartRedisCluster) -> RedisCluster:
    return start_redis_cluster(**DURABLE, **QUICK_TO_FAIL_OVER)


def test_a_master_killed_at_any_step_is_replaced_by_its_replica_and_nothing_is_lost(
    accompany: AccompanyRun, cluster: RedisCluster
) -> None:
    run = accompany(cluster, faults=hangs(STEPS))
    driver = run.start()
    for number, point in enumerate(STEPS):
        run.wait_for_fault(number)
        cluster.wait_until_in_step()  # all that was acknowledged is on the replica
        killed = cluster.master_of(DECISION if point.on_driver else COUNT)
        killed.kill()
        run.faults.release(number)  # chance decides whether the run calls before the replica has taken over
        cluster.wait_until_served()
        killed.start()
    run.assert_done(driver)


def test_slots_moved_at_any_step_are_followed(accompany: AccompanyRun, cluster: RedisCluster) -> None:
    run = accompany(cluster, faults=hangs(STEPS))
    driver = run.start()
    for number in range(len(STEPS)):
        run.wait_for_fault(number)
        for key in (COUNT, DECISION):
            source = cluster.master_of(key)
            target = next(server for server in cluster.current_masters() if server is not source)
            cluster.move(cluster.slot_of(key), source, target)
        run.faults.release(number)
    run.assert_done(driver)


@pytest.mark.parametrize("point", [FaultPoint.TASK_ALIGNED, FaultPoint.DECIDED], ids=["prepare", "commit"])
def test_a_slot_that_is_half_moved_is_waited_for(
    accompany: AccompanyRun, cluster: RedisCluster, point: FaultPoint
) -> None:
    run = accompany(cluster, faults=hangs([point]))
    driver = run.start_to_first_fault()
    slot, source = cluster.slot_of(COUNT), cluster.master_of(COUNT)
    target = next(server for server in cluster.current_masters() if server is not source)
    cluster.begin_move(slot, source, target)
    assert cluster.move_keys(slot, source, target, 1) == 1
    let_go_and_wait(run, driver, 0)
    while cluster.move_keys(slot, source, target):
        pass
    cluster.end_move(slot, target)
    run.assert_done(driver)


@pytest.mark.parametrize("key", [COUNT, DECISION], ids=["a task's state", "the decision"])
def test_acknowledged_writes_that_a_fail_over_lost_halt_the_run_and_nothing_is_written(
    accompany: AccompanyRun, cluster: RedisCluster, key: str
) -> None:
    run = accompany(cluster, faults=hangs([FaultPoint.WAVE_ENDED, FaultPoint.WAVE_ENDED]))
    driver = run.start_to_first_fault()
    cluster.wait_until_in_step()
    master = cluster.master_of(key)
    cluster.cut_off(cluster.replica_of(master))  # the writes of the next wave never reach it
    run.faults.release(0)
    run.wait_for_fault(1)
    master.kill()
    cluster.resume()
    cluster.wait_until_served()
    assert_refused(run, driver, lambda: contents_of(*cluster.current_masters()))


# What is killed at each step. HBase works without its master for a time, and without ZooKeeper.
KILLED = {
    FaultPoint.TASK_ALIGNED: (THRIFT,),
    FaultPoint.SLICE_STAGED: (REGION_SERVER,),
    FaultPoint.SEALED: (MASTER,),
    FaultPoint.ROUND_ENDED: (THRIFT, REGION_SERVER, MASTER),
    FaultPoint.DECIDED: (REGION_SERVER,),
    FaultPoint.NAMESPACE_COMMITTED: (THRIFT,),
    FaultPoint.SINK_PUBLISHED: (THRIFT, REGION_SERVER, MASTER, ZOOKEEPER),
}


def test_each_process_of_hbase_killed_at_any_step_is_waited_for(
    accompany: AccompanyRun, start_hbase: StartHBase
) -> None:
    server = start_hbase(distributed=True)
    config = config_of(server)
    config["thriftConfig"]["timeout"] = 3000
    conf = {"topology.message.timeout.secs": 120, "topology.state.provider.config": config}
    run = accompany(server, faults=hangs(STEPS), conf=conf)
    driver = run.start()
    for number, point in enumerate(STEPS):
        run.wait_for_fault(number)
        for part in KILLED[point]:
            server.kill(part)
        if KILLED[point] == (MASTER,):
            run.faults.release(number)  # the run does not notice
        else:
            let_go_and_wait(run, driver, number)
        server.start()
    run.assert_done(driver)
