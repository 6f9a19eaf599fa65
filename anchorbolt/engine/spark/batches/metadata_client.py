"""The worker's side of the metadata of batches: an emitter's task asks the driver, and tells it."""

import pickle
from typing import Any

from anchorbolt.checkpoint.ports import Round, TaskKey
from anchorbolt.engine.spark.intake.client import IntakeAddress, answer, asked
from anchorbolt.engine.task.emitter_task import PartitionStart, Told
from anchorbolt.errors import AnchorboltError
from anchorbolt.serialization import unpack


class AskedBatchDriver:
    """`BatchDriver` on a worker."""

    def __init__(self, address: IntakeAddress) -> None:
        self._address = address

    def partitions(self, current: Round, task: TaskKey) -> list[PartitionStart]:
        return [PartitionStart(*start) for start in self._ask(current, task, None)]

    def tell(self, current: Round, task: TaskKey, told: Told) -> None:
        self._ask(current, task, dict(told))

    def _ask(self, current: Round, task: TaskKey, told: dict[int, bytes | None] | None) -> Any:
        request = [*task, current.txid, *current.fence, told]
        with asked(self._address, request, current.txid) as file:
            is_done, content = unpack(answer(self._address, file, current.txid))
        if not is_done:
            error: AnchorboltError = pickle.loads(content)  # noqa: S301 - made by the driver of this run
            raise error
        return content
