"""Reads the files of a decided wave as one DataFrame, even if a task knew only a part of a column's type."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its usual name)
from pyspark.sql.pandas.types import from_arrow_type

from anchorbolt.bolts.column_types import for_readers, in_file, read_schema


def read_sink_files(session: SparkSession, files: Mapping[bytes, Sequence[str]], columns: bytes) -> DataFrame:
    """Return the rows of Parquet files.

    Args:
        session: Spark's session.
        files: The locations of the files by their encoded columns.
        columns: All columns that the sink has written so far. The rows have these columns in this order.
    """
    target = read_schema(columns, "")
    if len(files) == 1 and all(in_file(field.type) == field.type for field in target):
        [(own, locations)] = files.items()
        if read_schema(own, "") == target:
            return session.read.parquet(*locations)
    frames = []
    for own, locations in files.items():
        types = {field.name: in_file(field.type) for field in read_schema(own, "")}
        frame = session.read.parquet(*locations)
        frames.append(frame.select(*(_column(field, types.get(field.name)).alias(field.name) for field in target)))
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    return together


def _column(field: pa.Field, written: pa.DataType | None) -> Column:
    kind = for_readers(field.type)
    if written is None:
        return F.lit(None).cast(_spark(kind))
    return _converted(F.col(f"`{field.name.replace('`', '``')}`"), written, kind)


def _converted(column: Column, written: pa.DataType, kind: pa.DataType) -> Column:
    """Return a column converted to a fuller type: with more fields of a struct, or with an element type for null."""
    if written == kind:
        return column
    if pa.types.is_struct(written) and pa.types.is_struct(kind):
        types: dict[str, Any] = {field.name: field.type for field in written}
        parts = [
            (_converted(column.getField(each.name), types[each.name], each.type) if each.name in types else F.lit(None))
            .cast(_spark(each.type))
            .alias(each.name)
            for each in kind
        ]
        return F.when(column.isNotNull(), F.struct(*parts))
    if pa.types.is_list(written) and pa.types.is_list(kind):
        if pa.types.is_null(written.value_type):
            return F.when(column.isNotNull(), _nulls(kind.value_type, column))
        return F.transform(column, lambda each: _converted(each, written.value_type, kind.value_type))
    if pa.types.is_map(written) and pa.types.is_map(kind) and pa.types.is_null(written.item_type):
        return F.when(column.isNotNull(), F.map_from_arrays(F.map_keys(column), _nulls(kind.item_type, column)))
    return column.cast(_spark(kind))


def _nulls(kind: pa.DataType, column: Column) -> Column:
    """Return a null for each element of a list or map. Spark 4.3 fails if it reads elements without a type."""
    return F.array_repeat(F.lit(None).cast(_spark(kind)), F.size(column))


def _spark(kind: pa.DataType) -> Any:
    return from_arrow_type(kind, prefer_timestamp_ntz=True)
