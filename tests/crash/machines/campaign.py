"""A run on isolated machines with all that it needs: Redis, the cluster, and where its checkpoint and rows are."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.crash.machines.places import Directory, OnHdfs, OnKafka, OnS3, Place
from tests.crash.machines.runs import MachinesRun
from tests.servers.hdfs_server import HdfsProgram, HdfsServer
from tests.servers.isolated_cluster import IsolatedCluster
from tests.servers.kafka_server import KafkaProgram, KafkaServer
from tests.servers.redis_server import DURABLE, RedisServer
from tests.servers.s3_server import S3Program, S3Server
from tests.support.stores import redis_program

PLACES = ("directory", "hdfs", "s3", "kafka")


class Campaign(NamedTuple):
    run: MachinesRun
    hdfs: HdfsServer | None  # where the run is on HDFS
    kafka: KafkaServer | None  # where the run is from topic to topic


@contextmanager
def campaign(home: Path, where: str, *, machines: int = 2) -> Iterator[Campaign]:
    """Start everything below a folder, for as long as the context lasts.

    Args:
        home: The folder.
        where: One of `PLACES`: a directory that the machines share, HDFS, S3, or Kafka's topics.
        machines: How many machines.

    Raises:
        LookupError: Something is not on this machine; the message says what.
    """
    IsolatedCluster.require()
    shared, cluster_folder = home / "shared", home / "cluster"
    for folder in (shared, cluster_folder):
        folder.mkdir()
    with ExitStack() as servers:
        hdfs: HdfsServer | None = None
        kafka: KafkaServer | None = None
        redis = servers.enter_context(closing(RedisServer(redis_program(), home / "redis", **DURABLE)))
        redis.start()
        place: Place = Directory(shared)
        if where == "hdfs":
            hdfs = servers.enter_context(closing(HdfsServer(HdfsProgram.installed(), _made(home / "hdfs"))))
            hdfs.start()
            place = OnHdfs(shared, hdfs)
        elif where == "s3":
            s3 = servers.enter_context(closing(S3Server(S3Program.installed(), _made(home / "s3"))))
            s3.start()
            place = OnS3(shared, s3)
        elif where == "kafka":
            kafka = servers.enter_context(closing(KafkaServer(KafkaProgram.installed(), _made(home / "kafka"))))
            kafka.start()
            place = OnKafka(shared, kafka)
        cluster = IsolatedCluster(cluster_folder, machines=machines, shared=[shared])
        servers.callback(cluster.stop)
        cluster.start()
        run = servers.enter_context(closing(MachinesRun(home, cluster, redis, place)))
        yield Campaign(run, hdfs, kafka)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
