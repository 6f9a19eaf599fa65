"""Hands micro-batches over to a `QuerySource`, as Spark does on the thread of its query."""

import threading
import time
from typing import Any
from unittest.mock import Mock

from anchorbolt.engine.spark.query import QuerySource

_DEADLINE_S = 30


class Handed:
    """A micro-batch that a thread hands over."""

    def __init__(self, query: QuerySource, batch_id: int = 0) -> None:
        self.error: BaseException | None = None  # with which the query ends
        self._query = query
        self._frame: Any = Mock(**{"sparkSession.sparkContext.getLocalProperty.return_value": "query"})
        self._batch_id = batch_id
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def is_polled(self) -> bool:
        """Wait until the source has it; return whether a wave is needed for it. Raises what `poll` raises."""
        until = time.monotonic() + _DEADLINE_S
        while self._thread.is_alive():
            if self._query.poll():
                return True
            self._thread.join(0.01)
            assert time.monotonic() < until
        return False

    def join(self) -> None:
        self._thread.join(_DEADLINE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._query.on_batch(self._frame, self._batch_id)
        except BaseException as error:
            self.error = error
