"""Whole jobs whose state another program removes from Redis, while they run and between two runs."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from anchorbolt.cli.state.text import report_lines
from anchorbolt.engine import LocalCluster
from anchorbolt.errors import StateError
from anchorbolt.faults.points import PointReached, observe
from anchorbolt.migration_tools.inspect.decoding import Codecs
from anchorbolt.migration_tools.inspect.explanation import explain
from anchorbolt.migration_tools.inspect.inspection import namespace_summaries
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.redis.provider import RedisStateProvider
from anchorbolt.topology.graph import Topology
from anchorbolt.util.locations import open_folder
from tests.engine.jobs import word_count
from tests.state_backends.redis.test_deletions import harms
from tests.support.redis_server import RedisServer
from tests.support.stores import settings_of

WAVES = [" ".join(f"word{(wave * 7 + number) % 40}" for number in range(25)) for wave in range(6)]
NAME, RECORD = "word-count:count-1", "word-count:$checkpointspout-0"
COUNTS = Counter(word for wave in WAVES for word in wave.split())


@pytest.fixture(autouse=True)
def unobserved() -> Iterator[None]:
    before = observe(None)
    yield
    observe(before)


@pytest.fixture
def conf(redis_database: RedisServer, tmp_path: Any) -> dict[str, Any]:
    return {
        **settings_of(redis_database),
        "topology.checkpoint.location": str(tmp_path / "checkpoint"),
        "topology.state.cache.max.entries": 5,  # so that tasks read
        "topology.state.pending.max.entries": 3,  # and read what they have staged
    }


def job(first: int, last: int) -> Topology:
    return word_count(FeederSpout(["sentence"], [[(wave,)] for wave in WAVES[first:last]]))


def check_run(topology: Topology, conf: dict[str, Any]) -> None:
    """Run a topology, and read its state: the store refuses something, or all counts are right."""
    try:
        handle = LocalCluster().submit(topology, conf)
        assert handle.await_termination(60)
        counts = handle.state("count")
    except StateError:
        return
    assert counts == COUNTS


def remove_something(client: Any, chance: random.Random) -> None:
    keys = sorted(key for key in client.keys("*") if not key.endswith(b"-away"))
    if keys:
        chance.choice(list(harms(client, chance.choice(keys), chance).values()))()


@pytest.mark.parametrize("seed", range(20))
def test_a_deletion_while_the_job_runs_is_noticed_or_has_no_effect(
    conf: dict[str, Any], redis_database: RedisServer, seed: int
) -> None:
    chance = random.Random(seed)
    left = [chance.randrange(400)]

    def harm_once(reached: PointReached) -> None:
        left[0] -= 1
        if left[0] == 0:
            with redis_database.client() as client:
                remove_something(client, chance)

    observe(harm_once)
    check_run(job(0, len(WAVES)), conf)


@pytest.mark.parametrize("seed", range(20))
def test_a_deletion_between_two_runs_is_noticed_or_has_no_effect(
    conf: dict[str, Any], redis_database: RedisServer, seed: int
) -> None:
    assert LocalCluster().submit(job(0, 3), conf).await_termination(60)
    with redis_database.client() as client:
        remove_something(client, random.Random(seed))
    check_run(job(3, len(WAVES)), conf)


@pytest.mark.parametrize(
    ("remove", "name", "part"),
    [(remove, name, part) for remove in ("DEL", "HDEL") for name in (NAME, RECORD) for part in ("", "$fence")],
)
def test_a_deletion_between_two_runs_refuses_the_start_and_is_explained(
    conf: dict[str, Any], redis_database: RedisServer, remove: str, name: str, part: str
) -> None:
    assert LocalCluster().submit(job(0, 3), conf).await_termination(60)
    with redis_database.client() as client:
        key = name + part
        client.execute_command(remove, key, *(client.hkeys(key)[:1] if remove == "HDEL" else ()))
        before = {key: client.hgetall(key) for key in client.keys("*")}
        with pytest.raises(StateError) as refused:
            LocalCluster().submit(job(3, len(WAVES)), conf)
        assert refused.value.namespace == name
        assert {key: client.hgetall(key) for key in client.keys("*")} == before
    provider = RedisStateProvider(redis_database.host, redis_database.port)
    codecs = Codecs(MsgpackCodec(), MsgpackCodec())
    folder = open_folder(conf["topology.checkpoint.location"])
    report = explain(provider, "word-count", "word-count", codecs, folder, measure=False)
    assert report.action == "refused"
    assert report.refusals == (refused.value.message,)
    assert not any("(0, 0)" in line or "nothing committed" in line for line in report_lines(report, "Redis"))
    if name == NAME:
        assert [each.namespace for each in report.namespaces if each.problem] == [name]
        assert [each.namespace for each in namespace_summaries(provider) if each.problem] == [name]
