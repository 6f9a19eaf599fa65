"""A partitioned transactional spout over files of lines that only grow, such as logs. It needs no server."""

from pathlib import Path

from anchorbolt.transactional import PartitionedCoordinator, PartitionedEmitter, PartitionedTransactionalSpout


class LinesSpout(PartitionedTransactionalSpout):
    """Emits the lines of `0.txt`, `1.txt`, … in a folder. Partition n is the file `n.txt`.

    The metadata of a partition is `[start, end]`: the batch has the bytes of the file from `start` up to `end`. Append
    complete lines to a file at any time, and add files with the next numbers; never change or remove what was read.
    """

    def __init__(self, folder, take):
        """Read `folder`; a batch has at most `take` lines of each file."""
        self.folder = folder
        self.take = take

    def coordinator(self, conf, context):
        return LinesCoordinator(Path(self.folder))

    def emitter(self, conf, context):
        return LinesEmitter(Path(self.folder), self.take)

    def declare_output_fields(self, declarer):
        declarer.declare("tx", "line")


class LinesCoordinator(PartitionedCoordinator):
    def __init__(self, folder):
        self.folder = folder
        self.ends = {}

    def after(self, last_metadata):
        self.ends = {partition: end for partition, (_, end) in (last_metadata or {}).items()}

    def is_ready(self):
        return any(
            next_lines(file_of(self.folder, partition), self.ends.get(partition, 0), 1)
            for partition in range(self.number_of_partitions())
        )

    def number_of_partitions(self):
        partition = 0
        while file_of(self.folder, partition).exists():
            partition += 1
        return partition


class LinesEmitter(PartitionedEmitter):
    def __init__(self, folder, take):
        self.folder = folder
        self.take = take

    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        lines = next_lines(file_of(self.folder, partition), start, self.take)
        for line in lines:
            collector.emit((attempt, line.decode()))
        return [start, start + sum(map(len, lines))] if lines else last_metadata

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        start, end = metadata
        with file_of(self.folder, partition).open("rb") as file:
            file.seek(start)
            data = file.read(end - start)
        if len(data) < end - start:
            raise ValueError(f"{file_of(self.folder, partition)} had {end} bytes when it was read, and is shorter now")
        for line in data.splitlines(keepends=True):
            collector.emit((attempt, line.decode()))


def file_of(folder, partition):
    return folder / f"{partition}.txt"


def next_lines(path, start, take):
    """Return the complete lines behind `start`, at most `take` of them."""
    with path.open("rb") as file:
        file.seek(start)
        lines = (file.readline() for _ in range(take))
        return [line for line in lines if line.endswith(b"\n")]
