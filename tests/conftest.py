"""Fixtures for real servers, and the surroundings of every test: Java and Spark's environment, Hypothesis, CI's rules.

Helpers of the library's own tests do not belong here, but beside them or in tests/support.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

from tests.servers.hbase_server import HBaseProgram, HBaseServer
from tests.servers.hdfs_server import HdfsProgram, HdfsServer
from tests.servers.isolated_cluster import IsolatedCluster
from tests.servers.kafka_server import KafkaProgram, KafkaServer
from tests.servers.postgres_server import PostgresServer
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.servers.s3_server import S3Program, S3Server
from tests.servers.server_process import Server
from tests.support import no_skips_in_ci, spark_jvm, stores, tiers
from tests.support.certificates import Certificates, make_certificates

# Before any test imports it: the conformance suite's assertions show their values.
pytest.register_assert_rewrite("anchorbolt.testing")

# A failure prints the lines that replay it. No deadline: how fast the machine is decides nothing.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
# In CI the same examples every time: a submission must not be refused for what another one broke.
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
# For mutants: a failing example is not made simpler, because it matters only that there is one.
hypothesis.settings.register_profile(
    "caught", deadline=None, derandomize=True, database=None, phases=[hypothesis.Phase.generate]
)

T = TypeVar("T")

StartRedis = Callable[..., RedisServer]
StartRedisCluster = Callable[..., RedisCluster]
StartHBase = Callable[..., HBaseServer]
StartKafka = Callable[..., KafkaServer]
StartMachines = Callable[..., IsolatedCluster]
StartPostgres = Callable[..., PostgresServer]


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"true", "1", "yes"}


def pytest_configure(config: pytest.Config) -> None:
    """Choose the rules of this run and give Spark its environment before anything imports PySpark."""
    # A shell without job control has what it starts in the background ignore it, and so the commands under test.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    profile = os.environ.get("ANCHORBOLT_HYPOTHESIS") or ("ci" if in_ci() else "default")
    hypothesis.settings.load_profile(profile)
    config.pluginmanager.register(tiers)
    if in_ci():
        config.pluginmanager.register(no_skips_in_ci)
    if spark_version() < (4, 2):
        # PySpark 4.1 leaves sockets of its own to the garbage collector; no other version of it needs this.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")
    set_spark_environment()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` means: one more than there are cores, as a test often waits for a process."""
    return (os.cpu_count() or 1) + 1


def spark_version() -> tuple[int, int]:
    major, minor = metadata.version("pyspark").split(".")[:2]
    return int(major), int(minor)


def set_spark_environment() -> None:
    """Give tests that were not started by make what make gives them (`tools/record.py`), and all JVMs our options."""
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        os.environ.pop(name, None)
    os.environ.update(spark_jvm.environment())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LOCAL_HOSTNAME", "localhost")
    # Spark starts its workers with the `python3` of the PATH.
    programs = str(Path(sys.executable).parent)
    os.environ["PATH"] = os.pathsep.join([programs, os.environ.get("PATH", "")])
    record = Path(sys.prefix, "anchorbolt-setup.json")
    if "JAVA_HOME" not in os.environ and record.exists():
        java_home = json.loads(record.read_text())["java_home"]
        if java_home:
            os.environ["JAVA_HOME"] = java_home


S = TypeVar("S", bound=Server | RedisCluster)


def running(server: S) -> Iterator[S]:
    with closing(server):
        server.start()
        yield server


def starting(make: Callable[..., S]) -> Iterator[Callable[..., S]]:
    """Give a test a function that makes and starts servers, and end these after the test."""
    with ExitStack() as servers:

        def start(**options: Any) -> S:
            server = servers.enter_context(closing(make(**options)))
            server.start()
            return server

        yield start


def or_skip(find: Callable[[], T]) -> T:
    """Return a program, or skip the test where the machine has none."""
    try:
        return find()
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def redis_program() -> str:
    return or_skip(stores.redis_program)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def redis_server(redis_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis that the session's tests share; it persists nothing, so one to be killed comes from `start_redis`."""
    yield from running(RedisServer(redis_program, tmp_path_factory.mktemp("redis")))


@pytest.fixture
def redis_database(redis_server: RedisServer) -> RedisServer:
    """The shared Redis, without any key or script: give its `host` and `port` to what is tested."""
    with redis_server.client() as client:
        client.flushall()
        client.script_flush()
    return redis_server


def redis_maker(kind: Callable[..., S], program: str, request: pytest.FixtureRequest) -> Callable[..., S]:
    """Return what makes a Redis or a Redis Cluster with the options of `start_redis`."""
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")

    def make(*, tls: bool = False, **options: Any) -> S:
        certificates = request.getfixturevalue("certificates") if tls else None
        return kind(program, factory.mktemp("redis"), certificates=certificates, **options)

    return make


@pytest.fixture
def start_redis(redis_program: str, request: pytest.FixtureRequest) -> Iterator[StartRedis]:
    """Start a Redis of the test's own: `start_redis(password=…, users=…, tls=True, **options)`.

    Options are Redis's settings with underscores (`maxmemory="10mb"`); `**DURABLE` are those that survive a kill.
    """
    yield from starting(redis_maker(RedisServer, redis_program, request))


@pytest.fixture(scope="session")
def redis_cluster(redis_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """The Redis Cluster that the session's tests share; one to be hurt comes from `start_redis_cluster`."""
    yield from running(RedisCluster(redis_program, tmp_path_factory.mktemp("redis-cluster")))


@pytest.fixture
def empty_redis_cluster(redis_cluster: RedisCluster) -> RedisCluster:
    """The shared Redis Cluster, without any key or script: give its `nodes` to what is tested."""
    redis_cluster.flush()
    return redis_cluster


@pytest.fixture
def start_redis_cluster(redis_program: str, request: pytest.FixtureRequest) -> Iterator[StartRedisCluster]:
    """Start a Redis Cluster of the test's own, with the arguments of `start_redis` and `masters=…`."""
    yield from starting(redis_maker(RedisCluster, redis_program, request))


@pytest.fixture(scope="session")
def hbase_program() -> HBaseProgram:
    return or_skip(HBaseProgram.installed)


@pytest.fixture(scope="session")
def hbase_server(hbase_program: HBaseProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBaseServer]:
    """The HBase that the session's tests share; never kill this one.

    Tests use different names: of tables, or of namespaces in one table.
    """
    yield from running(HBaseServer(hbase_program, tmp_path_factory.mktemp("hbase")))


@pytest.fixture(scope="session")
def hbase_framed(
    hbase_program: HBaseProgram, hbase_server: HBaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HBaseServer]:
    """A second Thrift server in front of `hbase_server`, which speaks the framed transport and the compact protocol."""
    directory = tmp_path_factory.mktemp("hbase")
    options: Any = {"transport": "framed", "protocol": "compact", "behind": hbase_server}
    yield from running(HBaseServer(hbase_program, directory, **options))


@pytest.fixture
def start_hbase(hbase_program: HBaseProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartHBase]:
    """Start an HBase of the test's own: `start_hbase(transport=…, protocol=…, distributed=True, settings={…})`.

    It serves when the call returns, after some 5 s.
    """
    yield from starting(lambda **options: HBaseServer(hbase_program, tmp_path_factory.mktemp("hbase"), **options))


@pytest.fixture(scope="session")
def kafka_program() -> KafkaProgram:
    return or_skip(KafkaProgram.installed)


@pytest.fixture(scope="session")
def kafka_server(kafka_program: KafkaProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """The Kafka that the session's tests share: each has topics of its own. Never kill this one."""
    yield from running(KafkaServer(kafka_program, tmp_path_factory.mktemp("kafka")))


@pytest.fixture
def start_kafka(kafka_program: KafkaProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartKafka]:
    """Start a Kafka of the test's own: `start_kafka()`, serving when the call returns."""
    yield from starting(lambda: KafkaServer(kafka_program, tmp_path_factory.mktemp("kafka")))


@pytest.fixture(scope="session")
def hdfs_program() -> HdfsProgram:
    return or_skip(HdfsProgram.installed)


@pytest.fixture(scope="session")
def hdfs_server(hdfs_program: HdfsProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """The HDFS that the session's tests share: each has a folder of its own. Never kill this one."""
    yield from running(HdfsServer(hdfs_program, tmp_path_factory.mktemp("hdfs")))


@pytest.fixture(scope="session")
def s3_program() -> S3Program:
    return or_skip(S3Program.installed)


@pytest.fixture(scope="session")
def s3_server(s3_program: S3Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The S3 that the session's tests share: each has a `new_bucket()`. Never kill this one."""
    yield from running(S3Server(s3_program, tmp_path_factory.mktemp("s3")))


@pytest.fixture
def start_machines(tmp_path: Path) -> Iterator[StartMachines]:
    """Start a Spark cluster of isolated machines: `start_machines(machines=2, shared=[…])`; it ends after the test."""
    or_skip(IsolatedCluster.require)
    with ExitStack() as clusters:

        def start(**options: Any) -> IsolatedCluster:
            folder = tmp_path / "cluster"
            folder.mkdir()
            cluster = IsolatedCluster(folder, **options)
            clusters.callback(cluster.stop)
            cluster.start()
            return cluster

        yield start


@pytest.fixture(scope="session")
def prometheus_program() -> str:
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("there is no prometheus on the PATH; `make set-up` installs one or says how to")
    return program


@pytest.fixture(scope="session")
def chromium_program() -> str:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("there is no Chromium on the PATH; `make set-up` installs one or says how to")
    return program


@pytest.fixture(scope="session")
def postgres_program() -> str:
    program = shutil.which("postgres")
    if program is None:
        pytest.skip("there is no postgres on the PATH; `make set-up` installs one or says how to")
    return str(Path(program).resolve())


@pytest.fixture(scope="session")
def postgres_server(postgres_program: str) -> Iterator[PostgresServer]:
    """The PostgreSQL that the session's tests share; one to be killed comes from `start_postgres`."""
    yield from running(PostgresServer(postgres_program))


@pytest.fixture
def start_postgres(postgres_program: str) -> Iterator[StartPostgres]:
    """Start a PostgreSQL of the test's own: `start_postgres(**settings)`, running when the call returns."""
    yield from starting(partial(PostgresServer, postgres_program))
