"""Secrets that a job gives in all ways that are allowed are shown nowhere, whatever becomes of the run."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.cli.exit_codes import STATE_REFUSED, WRONG_USAGE
from tests.cli.command import Command, run_arguments, wait_until
from tests.conftest import StartRedis
from tests.servers.redis_server import DURABLE, RedisServer, RedisUser
from tests.ui.conftest import Client

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

JOB = """
import os
from pathlib import Path
from anchorbolt.bolts import BaseStatefulBolt
from anchorbolt.spouts import RedisStreamsSpout, StreamSpout
from anchorbolt.state_backends.redis.provider import RedisStateProvider
from anchorbolt.topology import TopologyBuilder

class Mine(RedisStateProvider):
    def __init__(self, *, port, login):
        super().__init__("127.0.0.1", port, password=login["password"])

class Count(BaseStatefulBolt):
    def prepare(self, conf, context, collector):
        self.conf, self.collector = conf, collector
    def init_state(self, state):
        self.state = state
    def execute(self, tup):
        if tup["word"] == "bad" and not Path("raised").exists():
            Path("raised").touch()
            raise ValueError("cannot log in to " + self.conf["my.raised.dsn"])
        self.state[tup["word"]] = self.state.get(tup["word"], 0) + 1
        self.collector.ack(tup)

def topology(conf):
    builder = TopologyBuilder()
    builder.set_spout("words", RedisStreamsSpout(
        "words", ["word"], port=conf["my.port"], username="spout", password_env="CANARY_OF_SPOUT"))
    secret = os.environ["CANARY_OF_OPTION"]  # of a source, as Kafka's are
    source = lambda spark: spark.readStream.option("kafka.sasl.jaas.config", secret).text("in/")
    builder.set_spout("files", StreamSpout(source, fields=["word"]))
    count = builder.set_bolt("count", Count(), 2).fields_grouping("words", "word")
    count.fields_grouping("files", "word")
    return builder.create_topology("canaries")
"""


def canary(name: str) -> str:
    return f"canary-{name}-5d1f80"


RAISED = canary("raised")
"""The job itself puts it into an exception, so it is in the log, which is the job's."""

TOPOLOGY = "/api/v1/topology/canaries"
PATHS = [
    *("/", "/login", "/static/main.js", "/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"),
    *("/api/v1/topology/summary", TOPOLOGY, f"{TOPOLOGY}?window=600&sys=1", f"{TOPOLOGY}/graph", f"{TOPOLOGY}/now"),
    *(f"{TOPOLOGY}/component/count", f"{TOPOLOGY}/component/words", f"{TOPOLOGY}/waves", f"{TOPOLOGY}/waves/1"),
    *(f"{TOPOLOGY}/failures", f"{TOPOLOGY}/configuration"),
]
PAGES_OF_SPARK = ["/environment/", "/jobs/", "/stages/", "/storage/", "/executors/", "/SQL/", "/StreamingQuery/"]


class CanaryRun:
    """A run whose secrets are given in one of several ways, and all that it has shown."""

    def __init__(self, directory: Path, server: RedisServer, way: str, log_format: str) -> None:
        (directory / "job.py").write_text(JOB)
        (directory / "in").mkdir()
        (directory / "in" / "one.txt").write_text("from a file\n")
        self.directory, self.secrets = directory, directory / "secrets"
        self.secrets.mkdir()
        state = server.password
        (self.secrets / "state").write_text(f"{state}\n")
        (self.secrets / "ui").write_text(f"{canary('ui-token')}\n")
        login = {"env": {"passwordEnv": "CANARY_OF_STATE"}, "file": {"passwordFile": str(self.secrets / "state")}}
        pool = {"port": server.port, "timeout": 300, **login.get(way, {"password": state})}
        provider: Any = {"jedisPoolConfig": pool, "jedisClusterConfig": {"password": canary("cluster")}}
        conf = {
            "topology.state.provider": "redis",
            "topology.state.provider.config": provider,
            "topology.checkpoint.location": str(directory / "checkpoint"),
            "topology.message.timeout.secs": 5,
            "topology.ui.host": "0.0.0.0",
            "storm.zookeeper.auth.password": canary("zookeeper-password"),
            "storm.zookeeper.auth.payload": canary("zookeeper-payload"),
            "storm.zookeeper.topology.auth.payload": canary("zookeeper-topology"),
            "my.port": server.port,
            "my.api.token": canary("token"),
            "my.database": f"postgresql://user:{canary('url')}@db/words",
            "my.raised.dsn": RAISED,
            "my.nested": [{"login": {"password": canary("nested"), "apiKey": canary("key")}}],
        }
        if way == "json":
            conf["topology.state.provider.config"] = json.dumps(provider)
        if way == "class":
            conf["topology.state.provider"] = "job.Mine"
            conf["topology.state.provider.config"] = {"port": server.port, "login": {"password": state}}
        conf |= (
            {"topology.ui.tokenFile": str(self.secrets / "ui")}
            if way == "file"
            else {"topology.ui.tokenEnv": "CANARY_OF_UI"}
        )
        (self.secrets / "conf.json").write_text(json.dumps(conf))
        (self.secrets / "spark-defaults.conf").write_text(
            f"spark.hadoop.fs.s3a.secret.key {canary('s3')}\n"
            f"spark.hadoop.fs.azure.account.key.mine.example {canary('azure')}\n"
            f"spark.hadoop.my.repository https://user:{canary('repository')}@example.com/\n"
        )
        self.env = {
            "CANARY_OF_STATE": str(state),
            "CANARY_OF_UI": canary("ui-token"),
            "CANARY_OF_OPTION": canary("option"),
            "CANARY_OF_SPOUT": server.users["spout"].password,
            "AWS_ACCESS_KEY_ID": canary("aws-id"),
            "AWS_SECRET_ACCESS_KEY": canary("aws-secret"),
            "AWS_SESSION_TOKEN": canary("aws-session"),
            "SPARK_CONF_DIR": str(self.secrets),
            "SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1",  # without those that switch Spark's UI off
        }
        self.arguments = run_arguments(
            *("job.py:topology", "--conf", str(self.secrets / "conf.json"), "--master", "local[2]", "--verbose"),
            *("--log-format", log_format, "--ui-port", "0", "--metrics-port", "0", "--ui-actions"),
        )
        self.shown: dict[str, str] = {}

    def start(self, **env: str) -> Command:
        return Command(self.arguments, directory=self.directory, env={**self.env, **env})

    def page(self, command: Command) -> Client:
        [port] = re.findall(r"page: http://[\d.]+:(\d+)/", command.out + command.err)[:1]
        return Client(f"http://127.0.0.1:{port}/")

    def look(self, when: str, command: Command) -> None:
        """Note all that pages, metrics, Spark's UI and the list of processes show now."""
        said = command.out + command.err
        [metrics] = re.findall(r"metrics: (http://[\d.]+:\d+/metrics)", said)[:1]
        client = self.page(command)
        token = {"Authorization": f"Bearer {canary('ui-token')}"}
        for path in PATHS:
            for headers in ({}, token, {"Authorization": f"Bearer {canary('ui-token')}x"}):
                status, sent, body = client.ask(path, headers=headers)
                self.shown[f"{when}: {path} {len(headers)} {status}"] = f"{sent} {body.decode()}"
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        self.shown[f"{when}: login"] = str(client.ask("/login", "POST", form, f"token={canary('ui-token')}"))
        with urllib.request.urlopen(metrics, timeout=30) as answer:
            self.shown[f"{when}: metrics"] = answer.read().decode()
        self.shown[f"{when}: arguments"] = command.command_lines()
        for ui in re.findall(r"Spark's UI: http://localhost:(\d+)", said)[:1]:
            self._look_at_spark(when, f"http://127.0.0.1:{ui}")

    def _look_at_spark(self, when: str, ui: str) -> None:
        def read(path: str) -> str:
            with urllib.request.urlopen(f"{ui}{path}", timeout=60) as answer:
                return str(answer.read().decode())

        [application] = json.loads(read("/api/v1/applications"))
        base = f"/api/v1/applications/{application['id']}"
        for path in (
            *PAGES_OF_SPARK,
            f"{base}/environment",
            f"{base}/jobs",
            f"{base}/executors",
            f"{base}/sql?details=true",
        ):
            self.shown[f"{when}: Spark's {path}"] = read(path)
        for execution in json.loads(self.shown[f"{when}: Spark's {base}/sql?details=true"]):
            path = f"/SQL/execution/?id={execution['id']}"
            self.shown[f"{when}: Spark's {path}"] = read(path)
        assert "redacted" in self.shown[f"{when}: Spark's {base}/environment"], "its secrets reach Spark"

    def note_output(self, when: str, command: Command) -> None:
        self.shown[f"{when}: output"] = (command.out + command.err).replace(RAISED, "")

    def note_files(self) -> None:
        """Note every file that the run has written into its directory, and its history as it is printed."""
        for path in self.directory.rglob("*"):
            if path.is_file() and self.secrets not in path.parents and path.name != "job.py":
                self.shown[f"file {path}"] = path.read_bytes().decode("latin-1")
        history = [sys.executable, "-m", "anchorbolt", "history", str(self.directory / "checkpoint")]
        for option in ("--json", "--plot"):
            with closing(Command([*history, option], directory=self.directory)) as command:
                assert command.end() == 0, repr(command)
                self.shown[f"history {option}"] = command.out + command.err


@pytest.fixture
def server(start_redis: StartRedis) -> RedisServer:
    users = {"spout": RedisUser(canary("spout"))}
    return start_redis(password=canary("state"), users=users, **DURABLE)


@pytest.fixture(params=["password-text", "env-json", "file-json", "json-text", "class-json"])
def run(request: pytest.FixtureRequest, tmp_path: Path, server: RedisServer) -> CanaryRun:
    way, _, log_format = request.param.partition("-")
    return CanaryRun(tmp_path, server, way, log_format)


def test_no_canary_is_shown_by_a_run_that_works_waits_and_fails(run: CanaryRun, server: RedisServer) -> None:
    with closing(run.start()) as command, server.client() as client:
        client.xadd("words", {"word": "good"})
        wait_until(lambda: "recovery" in command.out + command.err or command.has_ended, repr(command))
        assert not command.has_ended, repr(command)
        client.xadd("words", {"word": "bad"})
        wait_until(lambda: (run.directory / "raised").exists() or command.has_ended, repr(command))
        page, token = run.page(command), {"Authorization": f"Bearer {canary('ui-token')}"}
        wait_until(
            lambda: b"***" in page.ask(f"{TOPOLOGY}/failures", headers=token)[2], "the exception is there, masked"
        )
        run.look("working", command)
        server.kill()
        wait_until(lambda: "waiting for" in command.out + command.err, repr(command))
        run.look("waiting", command)
        assert command.end() == STATE_REFUSED, repr(command)
        run.note_output("failed", command)
    server.restart()
    with closing(run.start(CANARY_OF_SPOUT=canary("wrong-spout"))) as refused:
        assert refused.end() != 0
        run.note_output("the spout is refused", refused)
    with server.client() as client:
        client.config_set("requirepass", "another")
        with closing(run.start()) as refused:
            assert refused.end() == WRONG_USAGE, repr(refused)
            run.note_output("the state is refused", refused)
    run.note_files()
    leaks = {name: _around(text) for name, text in run.shown.items() if "canary-" in text}
    assert leaks == {}


def _around(text: str) -> list[str]:
    return [text[max(0, found.start() - 60) : found.end() + 40] for found in re.finditer("canary-", text)][:3]
