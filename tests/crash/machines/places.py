"""Where a job on isolated machines keeps its checkpoint and its sink: each place is reached by all machines."""

import io
import json
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import fs

from tests.support.hdfs_server import HdfsServer
from tests.support.s3_server import S3Server


class Place(ABC):
    """A folder that the driver and every machine reach.

    Attributes:
        uri: The folder, as it is given to Anchorbolt.
        spark_conf: Spark's settings that the folder needs.
    """

    uri: str
    spark_conf: Mapping[str, str]

    def rows(self, name: str) -> Counter[tuple[str, int]]:
        """Return the words and counts in the sink `name` below the folder."""
        tables = (pq.read_table(io.BytesIO(data)) for data in self._files(name))
        return Counter((row["word"], row["count"]) for table in tables for row in table.to_pylist())

    @abstractmethod
    def _files(self, name: str) -> Iterator[bytes]: ...


class Directory(Place):
    """A directory that the machines share, as on a network file system."""

    def __init__(self, path: Path) -> None:
        self.uri = str(path)
        self.spark_conf = {}

    def _files(self, name: str) -> Iterator[bytes]:
        return (path.read_bytes() for path in Path(self.uri, name).glob("*.parquet"))


class OnHdfs(Place):
    def __init__(self, server: HdfsServer) -> None:
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
    def __init__(self, server: S3Server) -> None:
        conf = server.hadoop_conf
        self.uri = f"{server.new_bucket()}/machines"
        self.spark_conf = {
            **{f"spark.hadoop.{name}": value for name, value in conf.items()},
            "spark.jars": server.client_jars,
        }
        self._files_of = fs.S3FileSystem(
            access_key=conf["fs.s3a.access.key"],
            secret_key=conf["fs.s3a.secret.key"],
            endpoint_override=conf["fs.s3a.endpoint"].partition("://")[2],
            scheme="http",
            region=conf["fs.s3a.endpoint.region"],
        )

    def _files(self, name: str) -> Iterator[bytes]:
        folder = f"{self.uri.partition('://')[2]}/{name}"
        for found in self._files_of.get_file_info(fs.FileSelector(folder)):
            if found.path.endswith(".parquet"):
                with self._files_of.open_input_stream(found.path) as stream:
                    yield stream.read()
