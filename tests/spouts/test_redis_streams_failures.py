"""A `RedisStreamsSpout` whose Redis is away, loses replies or refuses it; and its arguments and its password."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import cloudpickle
import pytest
import redis

from anchorbolt.config import Secret
from anchorbolt.errors import AnchorboltError, ConfigError, SourceUnavailable, TopologyError
from anchorbolt.spouts import RedisStreamsSpout, redis_reader
from anchorbolt.state_backends.redis.client import RedisClient
from anchorbolt.streams import TopologyContext
from anchorbolt.util import retry
from tests.conftest import StartRedis
from tests.servers.redis_server import DURABLE, RedisServer, RedisUser
from tests.servers.server_process import free_port
from tests.servers.tcp_proxy import Loss, TcpProxy
from tests.spouts.collected import Collected, running
from tests.spouts.redis_streams import KEY, add, add_many, pending, spout_on

PASSWORD = "correct-horse-battery-staple"
# What a user of the spout needs.
RULES = f"~{KEY} -@all +xgroup +xinfo +xreadgroup +xpending +xclaim +xack +xrange"


@pytest.fixture
def client(redis_database: RedisServer) -> Iterator[redis.Redis]:
    with redis_database.client() as client:
        yield client


@pytest.mark.parametrize("restarted_before", ["the read", "the ack"])
def test_a_redis_that_is_killed_and_started_again_is_waited_for(
    start_redis: StartRedis, restarted_before: str, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(**DURABLE)
    with server.client() as client:
        ids = add_many(client, map(str, range(20)))
    with running(spout_on(server, batch=5, timeout_ms=100)) as task:
        assert [id for id, _ in task.read(20)] == ids
        server.kill()
        with caplog.at_level(logging.WARNING, "anchorbolt.util"):
            task.read_until(lambda: bool(caplog.records))
        assert "the source" in caplog.text
        assert task.spout.source_is_away
        if restarted_before == "the read":
            task.spout.fail(ids[0])
            for id in ids[1:]:
                task.spout.ack(id)
            server.start()
            assert task.read(1) == [(ids[0], ("0",))]
            task.ack(ids[0])
        else:
            server.start()
            task.ack(*ids)
        with server.client() as client:
            assert pending(client) == {}
            added = add(client, "more")
        assert [id for id, _ in task.read(1)] == added
        assert not task.spout.source_is_away


def test_acks_that_could_not_be_sent_are_kept_and_sent_later(start_redis: StartRedis) -> None:
    server = start_redis(**DURABLE)
    with server.client() as client:
        ids = add(client, "a", "b", "c")
    with running(spout_on(server, timeout_ms=100), conf={"topology.message.timeout.secs": 1}) as task:
        task.read(3)
        server.kill()
        with pytest.raises(SourceUnavailable, match=str(server.port)):
            task.ack(*ids[:2])
        server.start()
        task.spout.flush_acks()
        with server.client() as client:
            assert pending(client) == {"words:lines-0": ids[2:]}


def test_the_run_stops_when_redis_stays_away(start_redis: StartRedis) -> None:
    server = start_redis()
    with running(spout_on(server, timeout_ms=100), conf={"topology.message.timeout.secs": 1}) as task:
        server.kill()
        with pytest.raises(SourceUnavailable) as caught:
            task.read_until(lambda: False)
    assert caught.value.waits_for == "the source"


def test_a_redis_that_does_not_answer_is_not_asked_at_every_call(
    start_redis: StartRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_FIRST_PAUSE_S", 60.0)
    server = start_redis()
    with running(spout_on(server, timeout_ms=100), conf={"topology.message.timeout.secs": 300}) as task:
        server.pause()
        assert task.read_times(1) == []
        server.resume()
        with server.client() as client:
            add(client, "a")
        assert task.read_times(100) == []


def test_a_redis_that_was_paused_is_read_again(start_redis: StartRedis) -> None:
    server = start_redis()
    with running(spout_on(server, timeout_ms=100)) as task:
        server.pause()
        task.read_times(3)
        server.resume()
        with server.client() as client:
            ids = add(client, "a")
        assert [id for id, _ in task.read(1)] == ids


@pytest.mark.parametrize("loss", [Loss.BEFORE, Loss.AFTER, Loss.REPLY, Loss.HALF])
def test_entries_of_a_lost_reply_are_emitted_once(
    redis_database: RedisServer, client: redis.Redis, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_reader, "_SWEEP_S", 3600.0)
    with TcpProxy(redis_database.port) as proxy:
        spout = RedisStreamsSpout(KEY, ["text"], host=redis_database.host, port=proxy.port, batch=3, timeout_ms=500)
        with running(spout) as task:
            held = add(client, "held")
            assert [id for id, _ in task.read(1)] == held
            ids = add_many(client, map(str, range(10)))
            proxy.arm(loss)
            found = [id for id, _ in task.read(10)]
            assert (len(found), set(found)) == (10, set(ids))
            assert proxy.struck == 1
            proxy.arm(loss)
            task.fail(ids[0], ids[1])
            assert [id for id, _ in task.read(2)] == ids[:2]
            proxy.arm(loss)
            task.ack(*ids, *held)
            assert proxy.struck == 3
            assert task.read_times(20) == []
            assert pending(client) == {}


def test_a_login_is_given_as_a_secret_a_variable_or_a_file_and_shown_nowhere(
    start_redis: StartRedis, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_redis(users={"spout": RedisUser(PASSWORD, RULES)}, **DURABLE)
    monkeypatch.setenv("SPOUT_PASSWORD", PASSWORD)
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    logins: list[dict[str, Any]] = [
        {"password": PASSWORD},
        {"password": Secret(PASSWORD)},
        {"password_env": "SPOUT_PASSWORD"},
        {"password_file": str(file)},
    ]
    caplog.set_level(logging.DEBUG, "anchorbolt")
    for number, login in enumerate(logins):
        spout = spout_on(server, username="spout", timeout_ms=100, **login)
        assert PASSWORD not in repr(spout) + repr(vars(spout))
        assert (PASSWORD.encode() in cloudpickle.dumps(spout)) == ("password" in login)
        with server.client() as client:
            ids = add(client, "a", "b", "c")
            if number == 0:
                client.xgroup_create(KEY, "words:lines", "0")
                client.xreadgroup("words:lines", "words:lines-5", {KEY: ">"}, count=1)
        with running(spout) as task:
            assert sorted(id for id, _ in task.read(3)) == ids
            task.fail(ids[0])
            task.read(1)
            server.restart()
            task.ack(*ids)
            assert PASSWORD not in repr(vars(task.spout))
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    "login",
    [{"username": "spout", "password": f"{PASSWORD}-wrong"}, {"username": "reader", "password": PASSWORD}, {}],
    ids=["wrong", "not permitted", "none"],
)
def test_a_login_that_is_refused_is_an_error_of_configuration_without_the_password(
    start_redis: StartRedis, login: dict[str, Any]
) -> None:
    users = {"spout": RedisUser(PASSWORD, RULES), "reader": RedisUser(PASSWORD, f"~{KEY} -@all +xread")}
    server = start_redis(users=users, password="another-password")
    spout = spout_on(server, **login)
    with pytest.raises(ConfigError) as caught:
        running(spout).__enter__()
    printed = "".join(traceback.format_exception(caught.value)) + repr(cloudpickle.dumps(caught.value))
    assert PASSWORD not in printed
    assert f"{server.host}:{server.port}" in caught.value.message
    assert caught.value.key is None


def test_a_missing_variable_of_a_password_is_refused_when_the_spout_opens(redis_database: RedisServer) -> None:
    with pytest.raises(ConfigError) as caught:
        running(spout_on(redis_database, password_env="NO_SUCH_VARIABLE")).__enter__()
    assert caught.value.key == "password_env"


@pytest.mark.parametrize(("problem", "releases"), [("password", 0), ("key", 1)])
def test_a_spout_that_could_not_be_opened_can_be_closed(
    problem: str, releases: int, redis_database: RedisServer, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    released: list[RedisClient] = []
    release = RedisClient.release
    monkeypatch.setattr(RedisClient, "release", lambda self: released.append(self) or release(self))
    client.set(KEY, "no stream")
    spout = spout_on(redis_database, password_env="NOT_SET_ANYWHERE" if problem == "password" else None)
    with pytest.raises(ConfigError):
        spout.open({}, TopologyContext("words", "lines", 7, 0, {"lines": (7,)}), Collected())  # type: ignore[arg-type]
    spout.close()
    assert len(released) == releases


def test_a_server_without_a_cluster_is_refused_where_nodes_are_given(redis_database: RedisServer) -> None:
    spout = RedisStreamsSpout(KEY, ["text"], nodes=[f"{redis_database.host}:{redis_database.port}"])
    with pytest.raises(ConfigError, match="instead of nodes"):
        running(spout).__enter__()


def test_a_redis_that_is_not_there_is_waited_for_at_the_start_too() -> None:
    spout = RedisStreamsSpout(KEY, ["text"], port=free_port(), timeout_ms=100)
    with pytest.raises(SourceUnavailable):
        running(spout, conf={"topology.message.timeout.secs": 1}).__enter__()


def test_tls_is_used_where_it_is_asked_for(start_redis: StartRedis, certificates: Any) -> None:
    server = start_redis(tls=True)
    spout = spout_on(server, tls={"ca": str(certificates.authority)})
    with closing(server.client()) as client, running(spout) as task:
        ids = add(client, "a")
        assert [id for id, _ in task.read(1)] == ids


@pytest.mark.parametrize(
    ("kind", "named", "arguments"),
    [
        (TopologyError, "streams", {"streams": ""}),
        (TopologyError, "streams", {"streams": []}),
        (TopologyError, "streams", {"streams": ["a", "a"]}),
        (TopologyError, "streams", {"streams": b"a"}),
        (TopologyError, "streams", {"streams": ["a", 7]}),
        (TopologyError, "fields", {"fields": "text"}),
        (TopologyError, "fields", {"fields": []}),
        (TopologyError, "fields", {"fields": ["a", "a"]}),
        (TopologyError, "group", {"group": ""}),
        (TopologyError, "batch", {"batch": 0}),
        (TopologyError, "batch", {"batch": True}),
        (TopologyError, "claim_after_s", {"claim_after_s": 0}),
        (TopologyError, "claim_after_s", {"claim_after_s": "60"}),
        (TopologyError, "from_start", {"from_start": "$"}),
        (TopologyError, "decode", {"decode": None}),
        (ConfigError, "port", {"port": 0}),
        (ConfigError, "host", {"host": "redis://:secret@server"}),
        (ConfigError, "nodes", {"nodes": []}),
        (ConfigError, "nodes", {"nodes": ["a:1"], "port": 7}),
        (ConfigError, "password", {"password": 7}),
        (ConfigError, "password", {"password": "a", "password_env": "B"}),
        (ConfigError, "timeout", {"timeout_ms": 0}),
        (ConfigError, "tls", {"tls": {"kca": "x"}}),
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_refused_by_its_name(
    kind: type[AnchorboltError], named: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(kind, match=named) as caught:
        RedisStreamsSpout(**{"streams": "a", "fields": ["text"], **arguments})
    assert "secret" not in caught.value.message
