"""The files of a checkpoint location that hold the positions of a query's sources."""

from __future__ import annotations

from collections.abc import Iterator

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.errors import MigrationRefused
from anchorbolt.files import Folder
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot

QUERY = "metadata"
"""The file of the checkpoint location with the id of the query."""


def check_sources(snapshot: TopologySnapshot, record: DecisionRecord, checkpoint: Folder) -> None:
    """Refuse a checkpoint location that does not have the positions of the record's query."""
    if record.query_id and snapshot.query_id != record.query_id:
        found = f"belongs to query {snapshot.query_id}" if snapshot.query_id else "has no streaming query"
        raise MigrationRefused(
            f"the state was computed from streaming query {record.query_id}, but the checkpoint location "
            f"{checkpoint.location} {found}. Give --conf with the file of the runs, and start the command where they "
            "are started."
        )


def source_files(checkpoint: Folder, record: DecisionRecord) -> Iterator[str]:
    """Yield the files that hold the positions of the query, up to the last batch in the state."""
    if not record.query_id:
        return
    for folder in ("offsets", "commits"):
        for name in checkpoint.names(folder):
            if name.isdigit() and int(name) <= record.batch_id:  # Spark plans later batches again
                yield f"{folder}/{name}"
    for source in checkpoint.names("sources"):
        for name in checkpoint.names(f"sources/{source}"):
            if not name.startswith("."):  # as the checksums of Hadoop
                yield f"sources/{source}/{name}"
    yield QUERY
