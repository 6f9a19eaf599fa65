"""`LocalCluster`: runs topologies in this process, one task at a time, in an order that a seed decides.

It is meant for unit tests, like Storm's `LocalCluster`. Tasks run the same code as on Spark, and tuples are encoded
between tasks, so that a job behaves the same on both engines.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from anchorbolt.engine.local.runner import LocalRunner, TemporaryDirectory
from anchorbolt.engine.sources.driver_spouts import Clock
from anchorbolt.files import join
from anchorbolt.run.handle import RunHandle, WaveListener
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.run.start import RunStart
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.topology.graph import Topology


class LocalCluster:
    """Runs topologies in this process, deterministically.

    By default this object keeps the state in memory: a topology that you submit to it again continues with its state.
    The default checkpoint location is a temporary directory, which exists as long as this object.
    """

    def __init__(self, *, seed: int = 0, clock: Clock = time.monotonic) -> None:
        """Create a cluster.

        Args:
            seed: Decides the order in which tasks run and blobs arrive, and which instance of a bolt runs a task's
                next wave: as on Spark, a task has an instance in each of two workers.
            clock: Returns the seconds by which tuple trees time out, tick tuples are due and the ages of messages
                are measured. A test passes a `ManualClock`.
        """
        self._seed = seed
        self._clock = clock
        self._memory = MemoryStateProvider()
        self._directory = TemporaryDirectory()

    def submit(
        self,
        topology: Topology,
        conf: Mapping[str, Any] | None = None,
        *,
        until_empty: bool = True,
        on_wave: WaveListener | None = None,
        start: RunStart | None = None,
    ) -> RunHandle:
        """Recover from an earlier run of the topology, start it on a new thread, and return its handle.

        Args:
            topology: The topology.
            conf: Configuration; see `docs/configuration.md`.
            until_empty: Process the data that the sources have now, and end; with rich spouts, when they emit no more
                and no message is pending. Otherwise run until `stop`.
            on_wave: Called after each committed wave.
            start: Internal: shows the start.

        Raises:
            AnchorboltError: The topology or configuration is wrong, or recovery was refused.
        """
        location = join(self._directory.path, topology.name)
        plan = prepare_plan(topology, conf, memory=self._memory, location=location)
        folder, kept = plan.open_location(), plan.settings.checkpoint_location is not None
        runner = LocalRunner(plan, folder, self._clock, self._seed, self._directory)
        return RunHandle(plan, folder, runner, on_wave, until_empty=until_empty, keeps_history=kept, start=start)
