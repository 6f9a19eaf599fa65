"""The same word count as a job of PyFlink; `flink_side.py` runs it, in an environment that has Flink.

Python runs in Flink's own threads, with state in RocksDB and incremental checkpoints: the fastest that PyFlink has. A
run ends with a savepoint, which has the counts and the names of the files so far; the next one begins with it.
"""

import json
import mmap
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.base import Sink
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway

_POLL_S = 0.002
_OUTPUT = Types.TUPLE([Types.STRING(), Types.LONG()])


class Held(KeyedProcessFunction):
    """Returns the count of a word, or 0."""

    def open(self, context: Any) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, word: str, context: Any) -> Iterator[tuple[str, int]]:
        yield word, self.count.value() or 0


class Count(Held):
    """Counts a word; each task writes down how many words it has counted, where the main program sees it."""

    def __init__(self, progress: Path) -> None:
        self._progress = progress

    def open(self, context: Any) -> None:
        super().open(context)
        with (self._progress / uuid4().hex).open("w+b") as file:
            file.write(bytes(8))
            file.flush()
            self._counted = memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")

    def process_element(self, word: str, context: Any) -> Iterator[tuple[str, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self._counted[0] += 1
        yield word, count


def environment(home: Path, parallelism: int, **settings: str) -> StreamExecutionEnvironment:
    conf = Configuration()
    savepoint = home / "savepoint"
    if savepoint.exists():
        settings["execution.state-recovery.path"] = savepoint.read_text()
    settings |= {
        "python.execution-mode": "thread",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": (home / "checkpoints").as_uri(),
        "pipeline.object-reuse": "true",
        "restart-strategy.type": "none",
        "io.tmp.dirs": str(home),
    }
    for key, value in settings.items():
        conf.set_string(key, value)
    made = StreamExecutionEnvironment.get_execution_environment(conf)
    made.set_parallelism(parallelism)
    return made


def counted(words: DataStream, function: KeyedProcessFunction) -> DataStream:
    keyed = words.key_by(lambda word: word, key_type=Types.STRING())
    return keyed.process(function, output_type=_OUTPUT).uid("count")


def run(text: Path, home: Path, parallelism: int, batches: list[int], interval_ms: int) -> list[float]:
    """Count until the tasks have counted the batches, which have so many words; return when each was counted."""
    progress = home / "progress" / uuid4().hex
    progress.mkdir(parents=True)
    settings = {"execution.checkpointing.interval": f"{interval_ms}ms"}
    env = environment(home, parallelism, **settings)
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), text.as_uri())
    files = files.monitor_continuously(Duration.of_millis(1000))
    lines = env.from_source(files.build(), WatermarkStrategy.no_watermarks(), "sentences").uid("sentences")
    words = lines.flat_map(str.split, output_type=Types.STRING()).uid("split")
    java = get_gateway().jvm.org.apache.flink
    counted(words, Count(progress)).sink_to(Sink(java.streaming.api.functions.sink.v2.DiscardingSink())).uid("out")
    job = env.execute_async("word-count")
    times = [time.monotonic()]
    expected = 0
    for size in batches:
        expected += size
        polls = 0
        while words_in(progress) < expected:
            polls += 1
            if polls % 1000 == 0 and job.get_job_status().result().is_terminal_state():
                raise SystemExit("the job has failed; see Flink's log")
            time.sleep(_POLL_S)
        times.append(time.monotonic())
    # (PyFlink's own method does not know the last argument, which Flink needs.)
    native = java.core.execution.SavepointFormatType.NATIVE
    savepoint = job._j_job_client.stopWithSavepoint(False, (home / "savepoints").as_uri(), native).get()
    (home / "savepoint").write_text(savepoint)
    if words_in(progress) != expected:
        raise SystemExit(f"{words_in(progress)} words were counted, and {expected} were there")
    return times


def words_in(progress: Path) -> int:
    return sum(int.from_bytes(path.read_bytes(), sys.byteorder) for path in progress.iterdir())


def counts(words: Path, home: Path, parallelism: int) -> dict[str, int]:
    """Read the counts of the words of a file from the last savepoint."""
    env = environment(home, parallelism, **{"execution.state-recovery.ignore-unclaimed-state": "true"})
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), words.as_uri()).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "words")
    with counted(lines.map(str, output_type=Types.STRING()), Held()).execute_and_collect() as rows:
        return {word: count for word, count in rows if count}


def main(text: str, home: str, parallelism: str, *asked: str) -> None:
    """Read or run, and write what that returns to a file."""
    if asked:
        batches, interval_ms = map(json.loads, asked)
        answer: Any = run(Path(text), Path(home), int(parallelism), batches, interval_ms)
    else:
        answer = counts(Path(text), Path(home), int(parallelism))
    Path(home, "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
