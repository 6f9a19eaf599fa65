"""The driver's side of the metadata of batches on Spark: answers the emitters' tasks over a socket."""

import pickle
from collections.abc import Iterator

from pyspark.sql import SparkSession

from anchorbolt.checkpoint.batches.metadata import LARGEST_METADATA
from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.spark.intake.worker_server import WorkerServer
from anchorbolt.engine.task.emitter_task import BatchDriver
from anchorbolt.engine.task.messages import as_failure
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.state import Fence


class BatchServer(WorkerServer):
    """Answers the emitters' tasks for the driver's pipeline."""

    longest_request = LARGEST_METADATA + (1 << 20)

    def __init__(self, session: SparkSession, driver: BatchDriver) -> None:
        self._driver = driver
        super().__init__(session)

    def answers(self, request: bytes) -> Iterator[bytes]:
        component, index, txid, generation, seq, told = unpack(request)
        current, task = Round(txid, Fence(generation, seq)), (component, index)
        try:
            if told is None:
                yield pack([True, [list(start) for start in self._driver.partitions(current, task)]])
            else:
                self._driver.tell(current, task, told)
                yield pack([True, None])
        except AnchorboltError as error:
            yield pack([False, pickle.dumps(as_failure(error, txid))])
