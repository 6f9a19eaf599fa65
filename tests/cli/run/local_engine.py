"""A job, and the local engine as the one that `anchorbolt run` runs it on."""

import signal
from collections.abc import Mapping
from typing import Any

from anchorbolt.cli.run.progress import Activity
from anchorbolt.cli.run.spark_engine import SparkEngine
from anchorbolt.config.settings import Settings
from anchorbolt.errors import AnchorboltError
from anchorbolt.files import WorkerLocations
from anchorbolt.run.handle import RunHandle, RunStatus, WaveListener
from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.run.start import RunStart
from anchorbolt.topology import Topology

JOB = """
    from pathlib import Path
    from anchorbolt.bolts import BaseStatefulBolt
    from anchorbolt.spouts.feeder import FeederSpout
    from anchorbolt.topology import TopologyBuilder

    class Sum(BaseStatefulBolt):
        def prepare(self, conf, context, collector):
            self.conf, self.collector = conf, collector
        def init_state(self, state):
            self.state = state
        def execute(self, tup):
            if tup["number"] < 0:
                raise ValueError(f"negative: {tup['number']}")
            self.state["sum"] = self.state.get("sum", 0) + tup["number"] * self.conf.get("factor", 1)
            self.collector.ack(tup)

    spout = FeederSpout(["number"], [[(1,), (2,)], [(3,)]])

    def summing(conf):
        builder = TopologyBuilder()
        builder.set_spout("numbers", spout)
        builder.set_bolt("sum", Sum()).global_grouping("numbers")
        return builder.create_topology("summing")

    def failing():
        spout.feed([(-1,)])
        return summing({})
"""


class LocalEngine(SparkEngine):
    """The local engine as the command's; its `connect` or `submit` may raise a given error."""

    def __init__(self, *, connect: BaseException | None = None, submit: AnchorboltError | None = None) -> None:
        self.handle: RunHandle | None = None
        self.closed = 0
        self.connected = False
        self.quietened: RunStatus | None = None  # the run's status at that moment
        self._connect = connect
        self._submit = submit

    def connect(self, topology: Topology, settings: Settings) -> tuple[str, str | None]:
        self.connected = True
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as PySpark does
        if self._connect is not None:
            raise self._connect
        return "this process", None

    def located(self, location: str) -> str:
        return WorkerLocations().qualified(location)

    def submit(
        self, topology: Topology, conf: Mapping[str, Any], *, until_empty: bool, on_wave: WaveListener, start: RunStart
    ) -> RunHandle:
        if self._submit is not None:
            raise self._submit
        self.handle = LocalCluster().submit(topology, conf, until_empty=until_empty, on_wave=on_wave, start=start)
        return self.handle

    def activity(self) -> Activity:
        return Activity()

    def quieten(self) -> None:
        assert self.handle is not None
        self.quietened = self.handle.status

    def close(self) -> None:
        self.closed += 1
