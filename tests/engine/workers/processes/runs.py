"""Runs whole topologies on real worker processes without Spark: `started(topology, folder, workers=2)`."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.driver.loop import RunStatus
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.engine.spark.workers.runner import WorkersProcessing, WorkersRunner
from anchorbolt.engine.task.messages import TaskReport
from anchorbolt.engine.workers.fleet import Fleet
from anchorbolt.engine.workers.gate import SECRET_BYTES
from anchorbolt.engine.workers.links import Secret
from anchorbolt.engine.workers.spouts import worker_spouts
from anchorbolt.run.handle import RunHandle
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts import BaseRichSpout
from anchorbolt.topology import Topology
from tests.cli.command import wait_until
from tests.engine.jobs import Committed, kept_in
from tests.engine.workers.processes.hosts import ProcessHosts
from tests.engine.workers.processes.network import Network

PATIENCE_S = 120.0
_NO_SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: SimpleNamespace(get=lambda key: None)))


class ProcessesRunner(WorkersRunner):
    """`WorkersRunner` whose workers are processes of these tests. Runs no stream spouts and no sinks."""

    def __init__(self, plan: ExecutionPlan, hosts: ProcessHosts, slots: int) -> None:
        self._whole, self.slots = plan, slots
        plans = [plan, plan.commit_phase()] if plan.wiring.batch_spout else [plan]
        self._phase, self._plan = len(plans) - 1, plans[-1]
        self.fleet = self._fleet = Fleet(
            plans, slots, hosts, "127.0.0.1", "127.0.0.1", Secret(secrets.token_bytes(SECRET_BYTES))
        )
        self._query = self.calls = self._hosted = None
        self.spouts = self.processing = None
        self.failed: list[Exception] = []  # the errors of rounds
        if plan.wiring.batch_spout:
            of_hosts: Any = hosts
            self.processing = WorkersProcessing(_NO_SPARK, plan, self.fleet, of_hosts, plan.pickled(), Mock())
        else:
            self.spouts, self._hosted = worker_spouts(plan, self.fleet, "processes", (BaseRichSpout,))
            self.fleet.start()
        self.sources = [] if self.spouts is None else [*self.spouts.sources]

    def run_round(self, current: Round) -> Any:
        try:
            reports: list[TaskReport] = [*super().run_round(current)]
        except Exception as error:
            self.failed.append(error)
            raise
        self.failed += [each.failure for each in reports if each.failure is not None]
        return reports

    def close_instances(self) -> None:
        if self.processing is not None:
            self.processing.close()
        self.fleet.close()


class StartedRun:
    """A run that was started, and its parts."""

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        *,
        workers: int = 2,
        conf: Mapping[str, Any] | None = None,
        until_empty: bool = True,
        network: Network | None = None,
    ) -> None:
        given = {**kept_in(folder), **(conf or {})}
        plan = prepare_plan(topology, given)
        self.hosts = ProcessHosts(plan.pickled(), workers, folder)
        self.hosts.proxies = None if network is None else network.address
        self.runner = ProcessesRunner(plan, self.hosts, workers)
        self.fleet = self.runner.fleet
        self.committed = Committed()
        self.handle = RunHandle(
            plan, plan.open_location(), self.runner, self.committed, until_empty=until_empty, keeps_history=False
        )

    def waves(self) -> int:
        """Return how many waves have been committed."""
        return len(self.committed.txids)

    def wait_for_waves(self, more: int, after: int | None = None) -> None:
        """Wait until so many waves more have been committed than `after`; by default, than now."""
        wanted = (self.waves() if after is None else after) + more
        wait_until(
            lambda: len(self.committed.txids) >= wanted or self.handle.status is not RunStatus.RUNNING,
            f"{more} more waves",
            PATIENCE_S,
        )
        assert self.handle.status is RunStatus.RUNNING, self.handle.failure

    def wait_for_workers(self) -> list[int]:
        """Wait until all workers are there; return the ids of their processes."""
        wanted = len(self.hosts.started)
        wait_until(lambda: len(self.fleet.figures()) == wanted, "all workers", PATIENCE_S)
        return [each.pid for each in self.fleet.figures()]

    def finish(self, seconds: float = PATIENCE_S) -> None:
        """Wait for the end of the run, which must have succeeded."""
        assert self.handle.await_termination(seconds), "the run has not ended"
        assert self.hosts.late == []

    def stop(self) -> None:
        assert self.handle.stop(PATIENCE_S)
        assert self.handle.failure is None


@contextmanager
def started(topology: Topology, folder: Path, **options: Any) -> Iterator[StartedRun]:
    """Start a run; end it, and all its processes, at the end."""
    run = StartedRun(topology, folder, **options)
    try:
        yield run
    finally:
        if run.handle.status is RunStatus.RUNNING:
            threading.Thread(target=run.handle.stop, daemon=True).start()
            for slot in range(len(run.hosts.started)):
                run.hosts.kill(slot, 18)  # SIGCONT
        run.handle._ended.wait(PATIENCE_S)
        run.hosts.end_all()
