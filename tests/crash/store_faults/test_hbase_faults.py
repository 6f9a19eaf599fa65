"""An HBase whose processes die, one by one and all together, while the job runs on Spark."""

import pytest

from anchorbolt.faults.points import FaultPoint
from tests.conftest import StartHBase
from tests.crash.conftest import AccompanyRun
from tests.crash.plans import STEPS, hangs
from tests.crash.store_faults.harm import let_go_and_wait
from tests.servers.hbase_server import MASTER, REGION_SERVER, THRIFT, ZOOKEEPER
from tests.support.stores import config_of

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

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
