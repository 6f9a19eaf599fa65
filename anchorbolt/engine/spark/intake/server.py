"""Brings the intake of a wave from the driver to the tasks of rich spouts on Spark, over a socket.

The plan of a run's jobs is made once, and its first stage asks here for what the spouts emitted. To make a DataFrame of
each wave's tuples takes twice as long, and keeps them in Spark's descriptions of tasks.
"""

from collections.abc import Iterator

from pyspark.sql import SparkSession

from anchorbolt.engine.sources.driver_spouts import DriverSpouts
from anchorbolt.engine.spark.intake.worker_server import WorkerServer
from anchorbolt.serialization import pack, unpack


class IntakeServer(WorkerServer):
    """Sends what the spouts have emitted."""

    def __init__(self, session: SparkSession, spouts: DriverSpouts) -> None:
        self.spouts = spouts
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        component, index = unpack(request)
        spouts = self.spouts
        if not component:  # the tasks that emit dead letters again
            replays = spouts.replays.rows() if spouts.replays is not None else ()
            yield pack([[task, [[*rows[:3]] for rows in each]] for task, each in replays])
            return
        assert spouts.rich is not None
        intake = spouts.rich.intake((component, index))
        yield pack([sorted(intake.excluded), intake.expired.tobytes(), dict(intake.moves)])
        for chunk, roots in intake.chunks:
            yield pack([chunk.stream, chunk.size, roots.tobytes(), spouts.rich.packed_ids(chunk)])
            yield chunk.payload
        yield b""
