"""State as a DataFrame of Spark: `state_frame`, and the data source `anchorbolt-state` behind it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import ConfigError, StateError
from anchorbolt.migration_tools.entries import Entry
from anchorbolt.querying.opening import open_state
from anchorbolt.querying.reader import Part
from anchorbolt.util.messages import shortened
from anchorbolt.util.times import to_datetime
from anchorbolt.util.values import as_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SCHEMA = "component string, task int, key string, value string, expires_at timestamp"
"""The columns of a state frame, unless a schema with other types, or with fewer columns, is given."""

_FORMAT = "anchorbolt-state"


def state_frame(
    spark: SparkSession,
    topology: str,
    conf: str | PathLike[str] | Mapping[str, Any] | None = None,
    *,
    components: Sequence[str] = (),
    schema: str = SCHEMA,
) -> DataFrame:
    """Return the state of a topology as a DataFrame: a row for each entry, without those that have expired.

    Its first action chooses the last committed wave, and the frame is always read as of that wave. If a later wave has
    changed a task, an action fails with `StateError`, and nothing torn is returned: make another frame, or stop the
    topology. Spark reads each task of a bolt in a task of its own.

    Args:
        spark: The session.
        topology: Name of the topology.
        conf: As for `open_state`; a path must exist on the driver and on the executors. Not with a password in it:
            name an environment variable or a file of each machine.
        components: Only these stateful bolts; all by default.
        schema: The columns to read, of `component`, `task`, `key`, `value` and `expires_at`, and their types. With the
            type string, a key or a value that is no text is shown as a Python literal. A key or value that does not fit
            into another type is an error of the action.

    Raises:
        ConfigError: `conf` contains a password.
    """
    options = {"topology": topology, "components": json.dumps(list(components))}
    if isinstance(conf, Mapping):
        _refuse_passwords(conf)
        options["settings"] = json.dumps(conf)
    elif conf is not None:
        options["conf"] = fspath(conf)
    spark.dataSource.register(StateSource)
    return spark.read.format(_FORMAT).options(**options).schema(schema).load()


class StateSource(DataSource):
    """The data source `anchorbolt-state`; register it with `spark.dataSource.register`, or use `state_frame`.

    Options: `topology`, and `conf`, the path of a configuration.
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
        self._components = json.loads(options.get("components", "[]"))
        self._schema = to_arrow_schema(schema, timezone="UTC")
        for name in self._schema.names:
            if name not in _COLUMNS:
                raise ConfigError(f"a state frame has no column {name!r}. Its columns are: {SCHEMA}.")

    def partitions(self) -> Sequence[InputPartition]:
        with open_state(self._topology, self._conf) as state:
            record, parts = state.parts(self._components)
        return [_Task(part, record.encode()) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        task = cast(_Task, partition)
        record = DecisionRecord.decode(task.record, "the plan of Spark")
        with open_state(self._topology, self._conf) as state:
            for page in state.pages(task.part, record):
                columns = [_column(field, task.part, page) for field in self._schema]
                yield pa.RecordBatch.from_arrays(columns, schema=self._schema)


_COLUMNS: dict[str, Callable[[Part, Entry], Any]] = {
    "component": lambda part, _: part.component,
    "task": lambda part, _: part.task,
    "key": lambda _, entry: entry.key.value,
    "value": lambda _, entry: entry.value.value if entry.value is not None else None,
    "expires_at": lambda _, entry: None if entry.expires_at is None else to_datetime(entry.expires_at),
}


def _column(field: pa.Field, part: Part, page: Sequence[Entry]) -> pa.Array:
    of = _COLUMNS[field.name]
    values = [of(part, entry) for entry in page]
    if pa.types.is_string(field.type):
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
