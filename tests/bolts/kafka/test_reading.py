"""The driver reads the outbox files of a wave in pieces. Without Kafka."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from anchorbolt.bolts.kafka.messages import outbox_schema
from anchorbolt.bolts.kafka.publisher import messages_of
from anchorbolt.bolts.sink import SinkFile

GROUPS, ROWS, VALUE = 60, 1000, b"x" * 500
FILE_BYTES = GROUPS * ROWS * len(VALUE)


def test_messages_of_a_large_file_are_never_in_memory_all_at_once(tmp_path: Path) -> None:
    path, schema = tmp_path / "out-1.parquet", outbox_schema()
    columns = [["topic"] * ROWS, [None] * ROWS, [b"k"] * ROWS, [VALUE] * ROWS, [None] * ROWS]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for _ in range(GROUPS):
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for count, message in enumerate(messages_of(3, [SinkFile("out", 1, str(path), GROUPS * ROWS, b"")]), 1):
        if count % ROWS == 0:
            most = max(most, pa.total_allocated_bytes() - before)
            assert message == ("topic", None, b"k", VALUE, None)
    assert count == GROUPS * ROWS
    assert most < FILE_BYTES / 10
