"""An HBase whose processes die, one by one and all together, while the job runs on Spark."""

from __future__ import annotations

import pytest

from anchorbolt.faults.injection import Fault, FaultAction
from anchorbolt.faults.points import FaultPoint
from tests.conftest import StartHBase
from tests.crash.conftest import AccompanyRun
from tests.crash.stores import config_of_hbase, let_go_and_wait
from tests.support.hbase_server import MASTER, REGION_SERVER, THRIFT, ZOOKEEPER

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Each step of the protocol, and what is killed there. Without the master, and without ZooKeeper, HBase goes on.
KILLED: dict[FaultPoint, tuple[str, ...]] = {
    FaultPoint.TASK_ALIGNED: (THRIFT,),
    FaultPoint.SLICE_STAGED: (REGION_SERVER,),
    FaultPoint.SEALED: (MASTER,),
    FaultPoint.ROUND_ENDED: (THRIFT, REGION_SERVER, MASTER),
    FaultPoint.DECIDED: (REGION_SERVER,),
    FaultPoint.NAMESPACE_COMMITTED: (THRIFT,),
    FaultPoint.SINK_PUBLISHED: (THRIFT, REGION_SERVER, MASTER, ZOOKEEPER),
}


@pytest.mark.thorough
def test_each_process_of_hbase_killed_at_any_step_is_waited_for(
    accompany: AccompanyRun, start_hbase: StartHBase
) -> None:
    server = start_hbase(distributed=True)
    config = config_of_hbase(server)
    config["thriftConfig"]["timeout"] = 3000
    faults = [
        Fault(point, FaultAction.HANG, txid=txid, component=None if point.on_driver else "count")
        for txid, point in enumerate(KILLED, 1)
    ]
    patient = {"topology.message.timeout.secs": 120}
    run = accompany("hbase", config, waves=len(KILLED) + 2, faults=faults, conf=patient)
    driver = run.start()
    for number, parts in enumerate(KILLED.values()):
        run.wait_for_fault(number)
        for part in parts:
            server.kill(part)
        if parts == (MASTER,):
            run.faults.release(number)  # nobody notices
        else:
            let_go_and_wait(run, driver, number)
        server.start()
    assert driver.end() == 0, repr(driver)
    assert run.differences() == []
