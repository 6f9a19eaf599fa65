"""`TupleCapture`: a sink that keeps what reaches it, for a test to look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.sink import DataFrameSink, SinkFile
from anchorbolt.util.locations import open_folder

if TYPE_CHECKING:
    import pyarrow


class TupleCapture(DataFrameSink):
    """Keeps the tuples of all committed waves, each exactly once, in the process that submitted the topology.

    Put it behind the component to look at, on `LocalCluster` or on `SparkCluster`:

        captured = TupleCapture()
        builder.set_bolt("captured", captured).global_grouping("count")

    Values travel through a Parquet file, as those of every sink: a tuple comes back as a list. Tuples of a wave that is
    rolled back are never seen.
    """

    def __init__(self, *, schema: pyarrow.Schema | None = None) -> None:
        """Make a sink; `schema` as for `DataFrameSink`."""
        super().__init__(_unused, schema=schema)
        self._waves: dict[int, list[tuple[Any, ...]]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave what was captured on the driver."""
        return super().__getstate__() | {"_waves": {}}

    @property
    def tuples(self) -> list[tuple[Any, ...]]:
        """The values of all tuples so far, wave by wave; within a wave task by task, in the order of arrival."""
        return [values for txid in sorted(self._waves) for values in self._waves[txid]]

    @property
    def waves(self) -> dict[int, list[tuple[Any, ...]]]:
        """The same by txid; a wave without tuples is not there."""
        return {txid: list(values) for txid, values in sorted(self._waves.items())}

    def publish(self, txid: int, files: Sequence[SinkFile], read: Callable[[Sequence[str]], Any]) -> None:
        """Keep a wave's rows, in place of what was kept for it before."""
        import io

        import pyarrow.parquet as pq

        rows: list[tuple[Any, ...]] = []
        for file in sorted(files, key=lambda file: file.task_index):
            folder, _, name = file.path.rpartition("/")
            data = open_folder(folder).read(name)
            if data is None:
                raise FileNotFoundError(file.path)
            columns = pq.read_table(io.BytesIO(data)).columns
            rows += zip(*(column.to_pylist() for column in columns), strict=True)
        self._waves[txid] = rows


def _unused(dataframe: Any, txid: int) -> None:
    raise AssertionError("a TupleCapture publishes by itself")
