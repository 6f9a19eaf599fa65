"""Vectorised bolts: they process a block of tuples at a time, as columns of Arrow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from anchorbolt.bolts.base import BaseStatefulBolt, Bolt
from anchorbolt.bolts.collector import OutputCollector
from anchorbolt.bolts.exact_arrays import exact_array, keeps_values
from anchorbolt.errors import TopologyError, UnsupportedValue
from anchorbolt.state_backends.key_value import KeyValueState
from anchorbolt.streams.arrow_types import wrong_type
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import fitting, taken
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import DEFAULT_STREAM, StreamDeclaration, wrong_stream
from anchorbolt.streams.tuple import Item, union
from anchorbolt.util.messages import shortened

if TYPE_CHECKING:
    import pyarrow

    from anchorbolt.state_backends.timed.timers import Timer

_NO_ROOTS: Item = ()


class BaseArrowBolt(Bolt):
    """A bolt without state that processes blocks of tuples. The framework acks its input.

    The worker keeps the instance, as that of a `BaseBasicBolt`.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once for an instance, before its first block."""

    @abstractmethod
    def execute_batch(self, batch: pyarrow.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Process a block of tuples of one stream and one task.

        Called for each block that arrives in a wave, of at least one tuple. How tuples are divided into blocks has no
        meaning, and differs between two tries of a wave.

        Args:
            batch: A column for each declared field, in the declared order. The field for the attempt of a transactional
                topology is left out. A field without a declared type has the type that Arrow infers from the block's
                values: a column of None alone has the type null.
            collector: Emits blocks.

        Raises:
            FailedException: Fails the trees of all tuples of the block, as that of a `BaseBasicBolt` fails one tuple's.
                Any other exception fails the wave. In a round that searches for the tuple to blame, the block is then
                halved, down to single tuples.
        """

    def execute_tick(self, collector: ArrowOutputCollector) -> None:
        """Called in place of a tick tuple, see `Tuple.is_tick`. Not called without one."""


class BaseStatefulArrowBolt(BaseArrowBolt, BaseStatefulBolt[KeyValueState[Any, Any]]):  # type: ignore[misc]
    """A bolt with durable state that processes blocks of tuples. The framework acks its input.

    The order of calls is that of a `BaseStatefulBolt`, with `execute_batch` in place of `execute`. The state's methods
    `get_array`, `put_array`, `add_array` and `delete_array` take whole columns. The stored bytes are those of a row
    bolt: a bolt may become a vectorised one, or the reverse, and keep its state.
    """

    def on_timers(self, timers: Sequence[Timer], collector: ArrowOutputCollector) -> None:
        """Called for timers that are due, with at most 2,048 of them at a time, in place of `on_timer`.

        They come in the order of their times, behind the blocks of a wave. `init_timers` is called if a bolt overrides
        this. What it emits has no parents.
        """
        raise NotImplementedError  # never called: only bolts that override it have timers

    def execute(self, tup: Any) -> NoReturn:
        """Never called."""
        raise NotImplementedError("a vectorised bolt executes blocks: see execute_batch")


class ArrowOutputCollector:
    """Emits blocks of tuples. The engine passes it to `execute_batch`.

    Attributes:
        source_component: Id of the component that emitted the current block.
        source_stream: The name of the block's stream.
        source_task: Id of the task that emitted it.
    """

    def __init__(self, collector: OutputCollector, *, is_tracked: bool, must_anchor: bool) -> None:
        """Called by the engine, never by a job.

        Args:
            collector: The collector of the task.
            is_tracked: Whether emitted tuples have roots.
            must_anchor: Whether tuples without `parents` are refused: messages would be acked too early.
        """
        self._collector = collector
        self._is_tracked = is_tracked
        self._must_anchor = must_anchor
        self._size = 0  # of the current block
        self._items: Sequence[Item] | None = None  # the roots of the block's tuples
        self.source_component = self.source_stream = ""
        self.source_task = -1

    def emit_batch(
        self, columns: Sequence[Any] | pyarrow.RecordBatch, *, parents: Any = None, stream: str = DEFAULT_STREAM
    ) -> None:
        """Emit a block of tuples.

        Args:
            columns: A column for each declared field, all equally long: `pyarrow` arrays, NumPy arrays or lists. Or a
                `pyarrow.RecordBatch` or `Table` with the declared fields. A column of a typed stream is cast to its
                type if nothing is lost. Leave out the field for the attempt of a transactional topology.
            parents: For each emitted tuple, the position in the input block of the tuple that it results from; or a
                list of such positions. Its message is acked when all tuples that descend from it are acked. None is
                only possible if the topology does not track messages; without parents, a tuple that fails further down
                cannot be put aside as a dead letter.
            stream: The stream to emit to.

        Raises:
            TopologyError: The stream is not declared, or is direct; the number of columns, or their length, is wrong;
                `parents` is missing, or has another length or a position outside of the block.
            UnsupportedValue: A column has a type that tuples do not have, or that does not fit the declared type.
        """
        collector = self._collector
        collector.check_call("emit_batch")
        declared = collector.streams.get(stream)
        if declared is None or declared.direct:
            raise self._refusal(wrong_stream(collector.streams, stream, "emit_batch"))
        arrays = self._arrays(columns, stream)
        size = len(arrays[0]) if arrays else 0
        if any(len(array) != size for array in arrays):
            names = self._names(declared)
            lengths = ", ".join(f"{name} {len(array):,}" for name, array in zip(names, arrays, strict=True))
            raise self._refusal(f"emitted columns of different lengths to stream {stream!r}: {lengths}.")
        items = self._roots(parents, size, stream)
        start = 0
        while start < size:
            rest = [taken(array, slice(start, None)) for array in arrays]
            part = fitting(size - start, rest, collector.most_bytes)
            buffer = Buffer(0, 0, 0)
            buffer.columns = [taken(array, slice(part)) for array in rest]
            buffer.size = part
            buffer.items = [] if items is None else list(items[start : start + part])
            collector.send_block(stream, buffer)
            start += part

    def report_error(self, error: BaseException) -> None:
        """Log an error that does not fail the block, and count it in the wave's report."""
        self._collector.report_error(error)

    def begin_block(self, size: int, items: Sequence[Item] | None, source: tuple[str, str, int]) -> None:
        """Called by the engine before each block, never by a job; `items` has the roots of its tuples."""
        self._size, self._items = size, items
        self.source_component, self.source_stream, self.source_task = source

    def _arrays(self, columns: Any, stream: str) -> list[Any]:
        import pyarrow as pa

        declared = self._collector.streams[stream]
        names = self._names(declared)
        if isinstance(columns, Mapping | str | bytes) or hasattr(columns, "iloc"):
            raise self._refusal(
                f"emitted a {type(columns).__name__} to stream {stream!r}. Emit a list of columns or a RecordBatch: "
                "pyarrow.RecordBatch.from_pandas(frame, preserve_index=False), or from_pydict(columns)."
            )
        if isinstance(columns, pa.RecordBatch | pa.Table):
            if tuple(columns.schema.names) != names:
                raise self._refusal(
                    f"emitted a batch with the fields {', '.join(columns.schema.names)} to stream {stream!r}, which "
                    f"declares {', '.join(names)}. Select and rename its columns."
                )
            columns = columns.columns
        columns = list(columns)
        if len(columns) != len(names):
            raise self._refusal(
                f"emitted {len(columns)} columns to stream {stream!r}, which declares {len(names)}: "
                f"{', '.join(names)}. Emit one column for each field."
            )
        types = [None] * len(names) if declared.schema is None else declared.schema.types
        return [
            self._array(column, kind, f"stream {stream!r} for the field {name!r}")
            for name, column, kind in zip(names, columns, types, strict=True)
        ]

    def _array(self, column: Any, kind: pyarrow.DataType | None, where: str) -> pyarrow.Array:
        import pyarrow as pa

        component = self._collector.component
        try:
            if isinstance(column, Mapping | str | bytes):
                raise TypeError("it is not a column. Emit an array or a list")
            if kind is not None and isinstance(column, list | tuple):
                column = exact_array(column, kind)
            if not isinstance(column, pa.Array | pa.ChunkedArray):
                of_objects = getattr(getattr(column, "dtype", None), "kind", "O") == "O"
                column = pa.array(column, kind if of_objects else None)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            if kind is not None and column.type != kind:
                if not keeps_values(column.type, kind):
                    raise TypeError(f"cast its {column.type} in the bolt, where you say how")
                column = column.cast(kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            wanted = "" if kind is None else f" as {kind}"
            raise UnsupportedValue(
                f"component {component!r} emitted to {where} a {type(column).__name__} that cannot be sent{wanted}: "
                f"{shortened(str(error), 300)}"
            ) from error
        problem = wrong_type(column.type)
        if problem:
            raise UnsupportedValue(
                f"component {component!r} emitted to {where} a column of the type {column.type}: {problem}"
            )
        return column

    def _roots(self, parents: Any, size: int, stream: str) -> Sequence[Item] | None:
        if parents is None:
            if self._must_anchor and size and self._size:
                raise self._refusal(
                    f"emitted to stream {stream!r} without parents, in a topology that tracks messages. Pass parents=, "
                    "with the position of its input tuple for each emitted tuple."
                )
            return None
        import pyarrow as pa

        found = parents.to_pylist() if isinstance(parents, pa.Array | pa.ChunkedArray) else _as_list(parents)
        if len(found) != size:
            raise self._refusal(
                f"emitted {size:,} tuples to stream {stream!r} with {len(found):,} parents. Pass one for each tuple."
            )
        items = self._items
        try:
            if min((min(each, default=0) if isinstance(each, list) else each for each in found), default=0) < 0:
                raise IndexError
            if items is None:
                items = range(self._size)  # only to check the positions
            roots = [
                union([items[each] for each in parent]) if isinstance(parent, list) else items[parent]
                for parent in found
            ]
        except (IndexError, TypeError):
            raise self._refusal(
                f"emitted to stream {stream!r} with parents that are not positions in its block of {self._size:,} "
                f"tuples: {shortened(parents, 120)}."
            ) from None
        return roots if self._is_tracked and self._items is not None else None

    def _names(self, declared: StreamDeclaration) -> tuple[str, ...]:
        """Return the fields of the columns to emit, without the one for the attempt."""
        return declared.fields[self._collector.has_attempt :] if declared.schema is None else declared.names

    def _refusal(self, problem: str) -> TopologyError:
        component = self._collector.component
        return TopologyError(f"component {component!r} {problem}", component=component)


def _as_list(parents: Any) -> list[Any]:
    return parents.tolist() if hasattr(parents, "tolist") else list(parents)
