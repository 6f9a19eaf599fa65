"""Fixtures for real servers, and the surroundings of every test: Java and Spark's environment, Hypothesis, CI's rules.

Helpers of the library's own tests do not belong here, but beside them or in tests/support.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.support import no_skips_in_ci, spark_jvm, stores
from tests.support.certificates import Certificates, make_certificates
from tests.support.hbase_server import HBaseProgram, HBaseServer
from tests.support.postgres_server import PostgresServer
from tests.support.redis_cluster import RedisCluster
from tests.support.redis_server import RedisServer, RedisUser

# Before any test imports it: the conformance suite's assertions show their values.
pytest.register_assert_rewrite("anchorbolt.testing")

# A failure prints the lines that replay it. No deadline: how fast the machine is decides nothing.
hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
# In CI the same examples every time: a submission must not be refused for what another one broke.
hypothesis.settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
# For mutants, of which it matters only that they are caught: a failing example is not made simpler.
hypothesis.settings.register_profile(
    "caught", deadline=None, derandomize=True, database=None, phases=[hypothesis.Phase.generate]
)

StartRedis = Callable[..., RedisServer]
StartRedisCluster = Callable[..., RedisCluster]
StartHBase = Callable[..., HBaseServer]
StartPostgres = Callable[..., PostgresServer]


# A test's tier and its worker follow from the fixtures that it uses. On several workers, all tests of a shared server
# run on one of them, so that this server is started once.
TIERS = {
    "hbase_program": pytest.mark.slow,
    "redis_cluster": pytest.mark.slow,
    "start_redis_cluster": pytest.mark.slow,
    "postgres_program": pytest.mark.thorough,
}
SHARED = ("hbase_server", "spark", "redis_cluster", "postgres_server")
# Parameters by which tests choose one of these fixtures at run time.
CHOSEN = {"hbase": "hbase_server", "redis_cluster": "redis_cluster", "cluster": "redis_cluster"}


def in_ci() -> bool:
    """Whether this is a run of continuous integration."""
    return os.environ.get("CI", "").lower() in {"true", "1", "yes"}


def pytest_configure(config: pytest.Config) -> None:
    """Choose the rules of this run and give Spark its environment before anything imports PySpark."""
    profile = os.environ.get("ANCHORBOLT_HYPOTHESIS") or ("ci" if in_ci() else "default")
    hypothesis.settings.load_profile(profile)
    if in_ci():
        config.pluginmanager.register(no_skips_in_ci)
    if spark_version() < (4, 2):
        # PySpark 4.1 leaves sockets of its own to the garbage collector; no other version of it needs this.
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket.socket:ResourceWarning")
    set_spark_environment()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their fixtures; on several workers, let the long tests come first."""
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            chosen = [value for value in item.callspec.params.values() if isinstance(value, str)]
            used |= {CHOSEN[value] for value in chosen if value in CHOSEN}
        for fixture in used & TIERS.keys():
            item.add_marker(TIERS[fixture])
        group = next((fixture for fixture in SHARED if fixture in used), None)
        if group is not None and getattr(config.option, "loadgroup", False):
            put_into_group(item, group)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def put_into_group(item: pytest.Item, group: str) -> None:
    """Let one of pytest-xdist's workers run all tests of a group. It knows a group by the end of the test's id."""
    if hasattr(item, "_id"):  # pytest-xdist 3.8 writes to `_nodeid`, which pytest 9.2 does not read
        item._id = type(item._id).parse(f"{item.nodeid}@{group}")
    else:
        item.add_marker(pytest.mark.xdist_group(group))


def spark_version() -> tuple[int, int]:
    """The first two numbers of the installed PySpark's version, read without importing it."""
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


@pytest.fixture(scope="session")
def redis_program() -> str:
    """The path of the machine's redis-server."""
    try:
        return stores.redis_program()
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for a server on loopback and for its clients."""
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def redis_server(redis_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """The Redis that the session's tests share; it persists nothing, so one to be killed comes from `start_redis`."""
    server = RedisServer(redis_program, tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_database(redis_server: RedisServer) -> RedisServer:
    """The shared Redis, without any key or script: give its `host` and `port` to what is tested."""
    with redis_server.client() as client:
        client.flushall()
        client.script_flush()
    return redis_server


@pytest.fixture
def start_redis(
    redis_program: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartRedis]:
    """Start a Redis of the test's own: `start_redis(password=…, users=…, tls=True, **options)`.

    Options are Redis's settings with underscores (`maxmemory="10mb"`); `**DURABLE` are those that survive a kill. The
    server is running when the call returns, and is stopped after the test.
    """
    servers: list[RedisServer] = []

    def start(
        *,
        password: str | None = None,
        users: Mapping[str, RedisUser] | None = None,
        tls: bool = False,
        **options: str | int,
    ) -> RedisServer:
        server = RedisServer(
            redis_program,
            tmp_path_factory.mktemp("redis"),
            password=password,
            users=users,
            certificates=request.getfixturevalue("certificates") if tls else None,
            options=options,
        )
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def redis_cluster(redis_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    """The Redis Cluster that the session's tests share; one to be hurt comes from `start_redis_cluster`."""
    cluster = RedisCluster(redis_program, tmp_path_factory.mktemp("redis-cluster"))
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def empty_redis_cluster(redis_cluster: RedisCluster) -> RedisCluster:
    """The shared Redis Cluster, without any key or script: give its `nodes` to what is tested."""
    redis_cluster.flush()
    return redis_cluster


@pytest.fixture
def start_redis_cluster(
    redis_program: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartRedisCluster]:
    """Start a Redis Cluster of the test's own, with the arguments of `start_redis` and `masters=…`."""
    clusters: list[RedisCluster] = []

    def start(
        *,
        masters: int = 3,
        password: str | None = None,
        users: Mapping[str, RedisUser] | None = None,
        tls: bool = False,
        **options: str | int,
    ) -> RedisCluster:
        cluster = RedisCluster(
            redis_program,
            tmp_path_factory.mktemp("redis-cluster"),
            masters=masters,
            password=password,
            users=users,
            certificates=request.getfixturevalue("certificates") if tls else None,
            options=options,
        )
        clusters.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in clusters:
        cluster.stop()


@pytest.fixture(scope="session")
def hbase_program() -> HBaseProgram:
    """The jars of HBase that set-up fetched, and a Java to run them."""
    try:
        return HBaseProgram.installed()
    except LookupError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def hbase_server(
    hbase_program: HBaseProgram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HBaseServer]:
    """The HBase that the session's tests share; never kill this one.

    Tests keep apart by names: of tables, or of namespaces in one table.
    """
    server = HBaseServer(hbase_program, tmp_path_factory.mktemp("hbase"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def hbase_framed(
    hbase_program: HBaseProgram, hbase_server: HBaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HBaseServer]:
    """A second Thrift server in front of `hbase_server`, which speaks the framed transport and the compact protocol."""
    directory = tmp_path_factory.mktemp("hbase")
    server = HBaseServer(
        hbase_program, directory, transport="framed", protocol="compact", behind=hbase_server
    )
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def start_hbase(
    hbase_program: HBaseProgram, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartHBase]:
    """Start an HBase of the test's own: `start_hbase(transport=…, protocol=…, distributed=True, settings={…})`.

    It serves when the call returns, after some 5 s, and is killed after the test.
    """
    servers: list[HBaseServer] = []

    def start(**options: Any) -> HBaseServer:
        servers.append(HBaseServer(hbase_program, tmp_path_factory.mktemp("hbase"), **options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def postgres_program() -> str:
    """The path of the machine's postgres."""
    program = shutil.which("postgres")
    if program is None:
        pytest.skip("there is no postgres on the PATH; `make set-up` installs one or says how to")
    return str(Path(program).resolve())  # initdb lies beside it


@pytest.fixture(scope="session")
def postgres_server(postgres_program: str) -> Iterator[PostgresServer]:
    """The PostgreSQL that the session's tests share; one to be killed comes from `start_postgres`."""
    server = PostgresServer(postgres_program)
    server.start()
    yield server
    server.close()


@pytest.fixture
def start_postgres(postgres_program: str) -> Iterator[StartPostgres]:
    """Start a PostgreSQL of the test's own: `start_postgres(**settings)`, running when the call returns."""
    servers: list[PostgresServer] = []

    def start(**options: str | int) -> PostgresServer:
        servers.append(PostgresServer(postgres_program, options=options))
        servers[-1].start()
        return servers[-1]

    yield start
    for server in servers:
        server.close()
