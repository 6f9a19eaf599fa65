"""Keeps a directory of Parquet files readable as one table when the columns of a sink change.

If all files have the same columns, there is nothing to do. Otherwise Spark takes the columns of a directory from its
file `_common_metadata`, and reads a column, or a name of a struct, that a file lacks as null. So files need not change
when columns are added. There is one exception: files with lists that were all empty, so that their elements had no
type, cannot be read together with lists of anything but numbers. Those files are rewritten once, when the type is
known.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anchorbolt.bolts.column_types import (
    Misfit,
    array_of,
    for_readers,
    grown,
    has_evolved,
    has_unknown_elements,
    in_file,
    read_schema,
)
from anchorbolt.files import Folder

if TYPE_CHECKING:
    import pyarrow

COLUMNS = "_common_metadata"
"""The file's name. Readers use this file or ignore it."""

_KNOWN = b"anchorbolt"  # in the file's metadata: the columns of each sink, encoded, by its id


def tell_columns(folder: Folder, component: str, known: bytes, added: Mapping[str, bytes]) -> None:
    """Publish to readers the columns that the sink `component` has written so far. May be repeated.

    `added` has the columns of the wave's files, which are already in the folder, by file name.

    Raises `OSError` if the folder cannot be read or written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    now = read_schema(known, component)
    has_all = all(read_schema(columns, component) == now for columns in added.values())
    if has_all and not has_evolved(now) and all(for_readers(field.type) == field.type for field in now):
        return  # each file has all columns
    by_sink = _by_sink(folder.read(COLUMNS))
    before = by_sink.get(component, b"")
    if before == known:
        return
    types = {field.name: field.type for field in now}
    own = re.compile(rf"part-[0-9]+-{re.escape(component)}-[0-9]+(-[0-9]+)?\.parquet")
    if changed := _changed(read_schema(before, component), types):
        for name in sorted(filter(own.fullmatch, folder.names(""))):
            _give_type_to_elements(folder, name, changed)
    for name, columns in added.items():
        if changed := _changed(read_schema(columns, component), types):
            _give_type_to_elements(folder, name, changed)
    by_sink[component] = known
    together = pa.schema([])
    try:
        for name, columns in sorted(by_sink.items()):  # several sinks may write to one directory
            together = grown(together, read_schema(columns, name))
    except Misfit:  # no reader can read these files as one table
        together = now
    told = json.dumps({name: base64.b64encode(columns).decode() for name, columns in by_sink.items()})
    schema = pa.schema([(field.name, for_readers(field.type)) for field in together], {_KNOWN: told.encode()})
    buffer = io.BytesIO()
    pq.write_metadata(schema, buffer)
    folder.replace(COLUMNS, buffer.getvalue())


def _by_sink(data: bytes | None) -> dict[str, bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not data:
        return {}
    try:
        told: dict[str, str] = json.loads((pq.read_schema(io.BytesIO(data)).metadata or {}).get(_KNOWN, b"{}"))
        return {name: base64.b64decode(columns) for name, columns in told.items()}
    except (pa.ArrowException, OSError, ValueError):  # of another program, or damaged: write it anew
        return {}


def _changed(before: pyarrow.Schema, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known types of the columns whose elements are untyped in files with the columns `before`."""
    return {
        field.name: types[field.name]
        for field in before
        if has_unknown_elements(field.type) and in_file(types[field.name]) != in_file(field.type)
    }


def _give_type_to_elements(folder: Folder, name: str, types: Mapping[str, Any]) -> None:
    data = folder.read(name)
    written = None if data is None else _with_types(data, types)
    if written is not None:
        folder.replace(name, written)


def _with_types(data: bytes, types: Mapping[str, Any]) -> bytes | None:
    """Rewrite a file with these types for some columns; return None if it already has them."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(io.BytesIO(data))
    old = [name for name in types if name in schema.names and has_unknown_elements(schema.field(name).type)]
    if not old:
        return None
    table = pq.read_table(io.BytesIO(data))
    for name in old:
        array = array_of(table.column(name).to_pylist(), in_file(types[name]))
        table = table.set_column(table.schema.get_field_index(name), name, array)
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()
