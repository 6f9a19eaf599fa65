"""For a test: `TupleCapture`, a sink that keeps the tuples it receives, and `ManualClock`, which the test moves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile, never_called
from anchorbolt.serialization import unpack
from anchorbolt.serialization.msgpack_values import pack_many


class TupleCapture(DataFrameSink):
    """Keeps the tuples of all committed waves, each exactly once, in the process that submitted the topology.

    Connect it to the component under test, on `LocalCluster` or on `SparkCluster`:

        captured = TupleCapture()
        builder.set_bolt("captured", captured).global_grouping("count")

    The values are exactly the emitted values: each tuple is packed into one column. Tuples of a wave that was rolled
    back are never captured.
    """

    def __init__(self) -> None:
        super().__init__(never_called)
        self._waves: dict[int, list[tuple[Any, ...]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the captured tuples, which stay on the driver."""
        return super().__getstate__() | {"_waves": {}}

    @property
    def tuples(self) -> list[tuple[Any, ...]]:
        """The values of all tuples so far, ordered by wave, then by task, then by arrival."""
        return [values for txid in sorted(self._waves) for values in self._waves[txid]]

    @property
    def waves(self) -> dict[int, list[tuple[Any, ...]]]:
        """The values of all tuples by txid; a wave without tuples has no entry."""
        return {txid: list(values) for txid, values in sorted(self._waves.items())}

    def outbox_columns(
        self, fields: Sequence[str], columns: Sequence[Sequence[Any]]
    ) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
        """Return the tuples, packed, as one column."""
        return ["tuple"], [pack_many(map(list, zip(*columns, strict=True)))]

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Keep a wave's rows; replaces rows that were kept for the same txid."""
        import io

        import pyarrow.parquet as pq

        rows: list[tuple[Any, ...]] = []
        for file in sorted(files, key=lambda file: (file.task_index, file.number)):
            folder, _, name = file.path.rpartition("/")
            data = self.locations.open(folder).read(name)
            if data is None:
                raise FileNotFoundError(file.path)
            rows += (tuple(unpack(packed)) for packed in pq.read_table(io.BytesIO(data)).column(0).to_pylist())
        self._waves[txid] = rows


class ManualClock:
    """Stands still until a test moves it. Thread-safe.

    Pass it to `LocalCluster(clock=clock)`: time-outs of tuple trees, tick tuples and ages of messages then use it.
    `clock()` returns its seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds = 0.0

    def __call__(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Move the clock forward. Raises `ValueError` if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back, by {seconds} s")
        with self._lock:
            self._seconds += seconds
