"""Where a job on isolated machines has its checkpoint, input and sink: each place is reached by all machines."""

import io
import json
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import fs

from tests.crash.machines import job
from tests.servers.hdfs_server import HdfsServer
from tests.servers.kafka_server import KafkaServer
from tests.servers.kafka_topics import KafkaTopics
from tests.servers.s3_server import S3Server


class Place(ABC):
    """What the driver and every machine reach.

    Attributes:
        uri: A folder, as it is given to Anchorbolt.
        spark_conf: Spark's settings that the place needs.
        shared: A directory that the machines share; the input may be there.
    """

    uri: str
    spark_conf: Mapping[str, str]
    shared: Path

    @property
    def job_conf(self) -> Mapping[str, object]:
        """The settings of the job by which it finds its input and its sink."""
        return {"job.input": str(self._made_input()), "job.output": f"{self.uri}/out"}

    def add_wave(self, lines: Sequence[str]) -> None:
        """Add the lines of one wave to the input."""
        folder = self._made_input()
        number = len(list(folder.iterdir()))
        hidden = folder / f".{number:05d}.txt"  # Spark's sources ignore such a name
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(folder / f"{number:05d}.txt")

    def rows(self) -> Counter[tuple[str, int]]:
        """Return the words and counts in the sink."""
        tables = (pq.read_table(io.BytesIO(data)) for data in self._files("out"))
        return Counter((row["word"], row["count"]) for table in tables for row in table.to_pylist())

    def _made_input(self) -> Path:
        folder = self.shared / "in"
        folder.mkdir(exist_ok=True)
        return folder

    @abstractmethod
    def _files(self, name: str) -> Iterator[bytes]: ...


class Directory(Place):
    """A directory that the machines share, as on a network file system, or one that they do not share."""

    def __init__(self, shared: Path, path: Path | None = None) -> None:
        self.shared = shared
        self.uri = str(path or shared)
        self.spark_conf = {}

    def _files(self, name: str) -> Iterator[bytes]:
        return (path.read_bytes() for path in Path(self.uri, name).glob("*.parquet"))


class OnKafka(Directory):
    """A job from topic to topic; only its checkpoint is in the shared directory."""

    def __init__(self, shared: Path, server: KafkaServer) -> None:
        super().__init__(shared)
        self._jars = server.connector_jars
        self._topics = KafkaTopics(server.servers)
        for topic in (job.SOURCE, job.TARGET):
            self._topics.create(topic, 3)

    @property
    def job_conf(self) -> Mapping[str, object]:
        return {"job.kafka.servers": self._topics.servers, "spark": {"jars": self._jars}}

    def add_wave(self, lines: Sequence[str]) -> None:
        self._topics.send(job.SOURCE, lines)

    def rows(self) -> Counter[tuple[str, int]]:
        found = (json.loads(each.value or b"") for each in self._topics.read(job.TARGET))
        return Counter((each["word"], each["count"]) for each in found)


class OnHdfs(Place):
    def __init__(self, shared: Path, server: HdfsServer) -> None:
        self.shared = shared
        self._web = f"http://{server.hadoop_conf['dfs.namenode.http-address']}/webhdfs/v1"
        self.uri = f"{server.uri}/machines"
        self.spark_conf = {f"spark.hadoop.{name}": value for name, value in server.hadoop_conf.items()}

    def _files(self, name: str) -> Iterator[bytes]:
        folder = f"{self._web}/machines/{name}"
        listed = json.loads(self._get(f"{folder}?op=LISTSTATUS"))["FileStatuses"]["FileStatus"]
        for status in listed:
            if status["pathSuffix"].endswith(".parquet"):
                yield self._get(f"{folder}/{urllib.parse.quote(status['pathSuffix'])}?op=OPEN")

    def _get(self, address: str) -> bytes:
        with urllib.request.urlopen(address, timeout=60) as answer:
            data: bytes = answer.read()
            return data


class OnS3(Place):
    def __init__(self, shared: Path, server: S3Server) -> None:
        self.shared = shared
        conf = server.hadoop_conf
        self.uri = f"{server.new_bucket()}/machines"
        self.spark_conf = {f"spark.hadoop.{name}": value for name, value in conf.items()}
        self._jars = server.client_jars
        self._files_of = fs.S3FileSystem(
            access_key=conf["fs.s3a.access.key"],
            secret_key=conf["fs.s3a.secret.key"],
            endpoint_override=conf["fs.s3a.endpoint"].partition("://")[2],
            scheme="http",
            region=conf["fs.s3a.endpoint.region"],
        )

    @property
    def job_conf(self) -> Mapping[str, object]:
        return {**super().job_conf, "spark": {"jars": self._jars}}

    def _files(self, name: str) -> Iterator[bytes]:
        folder = f"{self.uri.partition('://')[2]}/{name}"
        for found in self._files_of.get_file_info(fs.FileSelector(folder)):
            if found.path.endswith(".parquet"):
                with self._files_of.open_input_stream(found.path) as stream:
                    yield stream.read()
