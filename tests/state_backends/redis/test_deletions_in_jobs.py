"""Whole jobs whose state another program removes from Redis, while they run and between two runs."""

import random
import re
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from anchorbolt.cli.state.text import report_lines
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import MigrationRefused, StateError
from anchorbolt.faults.points import PointReached, observe
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.copy import copy_topology
from anchorbolt.migration_tools.entries import namespace_summaries
from anchorbolt.migration_tools.topology_inspection import explain
from anchorbolt.state_backends.redis import RedisStateProvider
from anchorbolt.state_backends.sqlite import SqliteStateProvider
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import Topology
from tests.engine.conftest import watch  # noqa: F401 - a fixture
from tests.engine.jobs import finished, word_count
from tests.migration_tools.conftest import MSGPACK
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.state_backends.redis.test_deletions import harms
from tests.support.stores import settings_of

WAVES = [" ".join(f"word{(wave * 7 + number) % 40}" for number in range(25)) for wave in range(6)]
NAME, RECORD = "word-count:count-1", "word-count:$checkpointspout-0"
COUNTS = Counter(word for wave in WAVES for word in wave.split())

Conf = dict[str, Any]
Server = RedisServer | RedisCluster


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def conf(server: Server, tmp_path: Any) -> Conf:
    return {
        **settings_of(server),
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.state.cache.max.entries": 5,  # so that tasks read
        "topology.state.pending.max.entries": 3,  # and read what they have staged
    }


def job(first: int, last: int) -> Topology:
    return word_count(FeederSpout(["sentence"], [[(wave,)] for wave in WAVES[first:last]]))


def remove_something(server: Server, chance: random.Random) -> None:
    masters = server.current_masters() if isinstance(server, RedisCluster) else [server]
    with chance.choice(masters).client() as client:
        keys = sorted(key for key in client.keys("*") if not key.endswith(b"-away"))
        if keys:
            chance.choice(list(harms(client, chance.choice(keys), chance).values()))()


@pytest.mark.parametrize("while_it_runs", [True, False])
@pytest.mark.parametrize(
    ("server", "seed"),
    [("redis_database", seed) for seed in range(20)] + [("empty_redis_cluster", seed) for seed in range(20, 26)],
    indirect=["server"],
)
@pytest.mark.usefixtures("watch")
def test_a_deletion_is_noticed_or_has_no_effect(conf: Conf, server: Server, seed: int, while_it_runs: bool) -> None:
    chance = random.Random(seed)
    left = [chance.randrange(400)]

    def harm_once(reached: PointReached) -> None:
        left[0] -= 1
        if left[0] == 0:
            remove_something(server, chance)

    if while_it_runs:
        observe(harm_once)
    else:
        finished(job(0, 3), conf)
        remove_something(server, chance)
    with suppress(StateError):
        handle = LocalCluster().submit(job(0 if while_it_runs else 3, len(WAVES)), conf)
        assert handle.await_termination(60)
        assert handle.state("count") == COUNTS


@pytest.mark.parametrize(
    ("remove", "name", "part"),
    [(remove, name, part) for remove in ("DEL", "HDEL") for name in (NAME, RECORD) for part in ("", "$fence")],
)
@pytest.mark.parametrize("server", ["redis_database"], indirect=True)
def test_a_deletion_between_two_runs_refuses_the_start_and_is_explained(
    conf: Conf, server: RedisServer, tmp_path: Any, remove: str, name: str, part: str
) -> None:
    finished(job(0, 3), conf)
    with server.client() as client:
        key = name + part
        client.execute_command(remove, key, *(client.hkeys(key)[:1] if remove == "HDEL" else ()))
        before = {key: client.hgetall(key) for key in client.keys("*")}
        with pytest.raises(StateError) as refused:
            LocalCluster().submit(job(3, len(WAVES)), conf)
        assert refused.value.namespace == name
        assert {key: client.hgetall(key) for key in client.keys("*")} == before
    provider = RedisStateProvider(server.host, server.port)
    folder = open_folder(conf["topology.checkpoint.location"])
    report = explain(provider, "word-count", "word-count", MSGPACK, folder, measure=False)
    assert (report.action, report.refusals) == ("refused", (refused.value.message,))
    assert not any("(0, 0)" in line or "nothing committed" in line for line in report_lines(report, "Redis"))
    target = SqliteStateProvider(str(tmp_path / "target"))
    with pytest.raises(MigrationRefused, match=re.escape(refused.value.message)):
        copy_topology(provider, target, "word-count", "word-count")
    assert list(target.namespaces()) == []
    if name == NAME:
        assert [each.namespace for each in report.namespaces if each.problem] == [name]
        assert [each.namespace for each in namespace_summaries(provider) if each.problem] == [name]
