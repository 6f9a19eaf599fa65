"""State as a DataFrame of Spark: `state_frame`, and the data source `anchorbolt-state` behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from types import NoneType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkAttributeError
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import ConfigError, StateError
from anchorbolt.querying.opening import open_state
from anchorbolt.querying.reader import Entries, Part
from anchorbolt.serialization.codecs import MsgpackKeyCodec
from anchorbolt.util.garbage import spare_imports
from anchorbolt.util.messages import shortened
from anchorbolt.util.times import to_datetime
from anchorbolt.util.values import as_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SCHEMA = "component string, task int, key string, value string, expires_at timestamp"
"""The columns of a state frame, unless a schema with other types, or with fewer columns, is given."""

_FORMAT = "anchorbolt-state"
_PARTS_PER_CORE = 3  # ranges of keys may have very different numbers of entries
_codec = MsgpackKeyCodec()
_registered: WeakSet[SparkSession] = WeakSet()


def state_frame(
    spark: SparkSession,
    topology: str,
    conf: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    components: Sequence[str] = (),
    keys: Collection[Any] | None = None,
    schema: str = SCHEMA,
) -> DataFrame:
    """Return the state of a topology as a DataFrame: a row for each entry, without those that have expired.

    Its first action chooses the last committed wave, and the frame is always read as of that wave. If a later wave has
    changed a task, an action fails with `StateError`, and nothing torn is returned: make another frame, or stop the
    topology. Spark reads each task of a bolt in a task of its own. If it has more cores than there are tasks, it reads
    ranges of keys of a large task in parallel, from SQLite or HBase.

    Filters of Spark are not pushed down: Spark 4.3 applies a filter that a Python source takes to other uses of the
    same frame, too. To read less, give `components` or `keys`.

    Args:
        spark: The session.
        topology: Name of the topology.
        conf: As for `open_state`; a path must exist on the driver and on the executors. Not with a password in it:
            name an environment variable or a file of each machine.
        components: Only these stateful bolts; all by default.
        keys: Look up only these keys, as the bolts have them, such as "to", 7 or ("to", 0); all entries by default.
        schema: The columns to read, of `component`, `task`, `key`, `value` and `expires_at`, and their types. With the
            type string, a key or a value that is no text is shown as a Python literal. A key or value that does not fit
            into another type is an error of the action.

    Raises:
        ConfigError: `conf` contains a password.
        UnsupportedValue: A key is of a type that cannot be a key.
    """
    options = {"topology": topology, "components": json.dumps(list(components))}
    if keys is not None:
        options["keys"] = json.dumps([_codec.encode(key).hex() for key in keys])
    if isinstance(conf, Mapping):
        _refuse_passwords(conf)
        options["settings"] = json.dumps(conf)
    elif conf is not None:
        options["conf"] = fspath(conf)
    with suppress(PySparkAttributeError):  # Spark Connect has no context
        options["cores"] = str(spark.sparkContext.defaultParallelism)
    if spark not in _registered:  # Spark warns of a second registration
        spark.dataSource.register(StateSource)
        _registered.add(spark)
    return spark.read.format(_FORMAT).options(**options).schema(schema).load()


class StateSource(DataSource):
    """The data source `anchorbolt-state`; register it with `spark.dataSource.register`, or use `state_frame`.

    Options: `topology`, and `conf`, the path of a configuration; `components`, a JSON list of bolts; `cores`, for which
    large tasks are divided.
    """

    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        if "topology" not in self.options:
            raise ConfigError(f"the data source {_FORMAT} needs the option topology: the name of a topology.")
        return _Reader(dict(self.options), schema)


class _Task(InputPartition):
    def __init__(self, part: Part, record: bytes) -> None:
        self.part = part
        self.record = record


class _Reader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._topology = options["topology"]
        self._conf = json.loads(options["settings"]) if "settings" in options else options.get("conf")
        self._components: list[str] = json.loads(options.get("components", "[]"))
        self._cores = int(options.get("cores", "1"))
        encoded = options.get("keys")
        self._keys = None if encoded is None else [_codec.decode(bytes.fromhex(each)) for each in json.loads(encoded)]
        self._schema = to_arrow_schema(schema, timezone="UTC")
        for name in self._schema.names:
            if name not in _COLUMNS:
                raise ConfigError(f"a state frame has no column {name!r}. Its columns are: {SCHEMA}.")

    def partitions(self) -> Sequence[InputPartition]:
        with open_state(self._topology, self._conf) as state:
            record, parts = state.parts(self._components)
            if self._keys is None and 0 < len(parts) < self._cores:
                each = -(-_PARTS_PER_CORE * self._cores // len(parts))
                parts = [some for part in parts for some in state.divided(part, each)]
        return [_Task(part, record.encode()) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        spare_imports()  # of a Python worker of Spark
        task = cast(_Task, partition)
        record = DecisionRecord.decode(task.record, "the plan of Spark")
        with open_state(self._topology, self._conf) as state:
            for page in state.pages(task.part, record, self._keys):
                columns = [_column(field, task.part, page) for field in self._schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


_COLUMNS: dict[str, Callable[[Part, Entries], Sequence[Any]]] = {
    "component": lambda part, page: pa.repeat(part.component, len(page.keys)),
    "task": lambda part, page: pa.repeat(pa.scalar(part.task, pa.int32()), len(page.keys)),
    "key": lambda _, page: page.keys,
    "value": lambda _, page: page.values,
    "expires_at": lambda _, page: [
        None if at is None else to_datetime(at) for at in page.expires_at or [None] * len(page.keys)
    ],
}


def _column(field: pa.Field, part: Part, page: Entries) -> pa.Array:
    values = _COLUMNS[field.name](part, page)
    if isinstance(values, pa.Array):
        try:
            return values.cast(field.type)
        except pa.ArrowException:
            values = values.to_pylist()
    if pa.types.is_string(field.type) and not {str, NoneType}.issuperset(map(type, values)):
        values = [each if type(each) is str or each is None else as_text(each) for each in values]
    try:
        return pa.array(values, type=field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        for value in values:
            try:
                pa.array([value], type=field.type)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
                raise StateError(
                    f"{part.namespace}: the {field.name} {shortened(value)} does not fit into {field.type}: {error}. "
                    "Give the column another type in the schema, such as string.",
                    namespace=part.namespace,
                ) from error
        raise


def _refuse_passwords(conf: Mapping[str, Any]) -> None:
    for name, value in conf.items():
        if name.lower().endswith("password") and value:
            raise ConfigError(
                f"{name} is in the configuration of a state frame, and Spark shows the options of a data source. Use "
                f"{name}Env or {name}File.",
                key=name,
            )
        if isinstance(value, Mapping):
            _refuse_passwords(value)
