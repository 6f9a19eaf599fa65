"""`FakeRedisStateProvider`: a job's unit test against the keys and scripts of Redis, without a server."""

import pickle
from contextlib import closing

from anchorbolt.run.local_cluster import LocalCluster
from anchorbolt.testing import FakeRedisStateProvider
from tests.engine.jobs import feeder, run, word_count


def test_a_topology_keeps_its_state_under_the_keys_of_redis() -> None:
    redis = FakeRedisStateProvider()
    handle = run(LocalCluster(), word_count(feeder("a bee", "a cow and a bee")), redis.conf)
    assert handle.state("count") == {"a": 3, "bee": 2, "cow": 1, "and": 1}
    namespaces = [name for name in redis.namespaces() if ":count-" in name]
    client = redis.client()
    assert sum(client.hlen(name) for name in namespaces) == 4
    assert {client.hget(f"{name}$txid", "commit") for name in namespaces} == {b"1"}


def test_providers_of_one_name_share_their_content_and_others_do_not() -> None:
    redis = FakeRedisStateProvider("shared")
    for provider in (FakeRedisStateProvider("shared"), pickle.loads(pickle.dumps(redis))):  # noqa: S301
        with closing(provider.open("words:count-0")) as storage:
            storage.claim()
    assert list(redis.namespaces()) == ["words:count-0"]
    assert list(FakeRedisStateProvider().namespaces()) == []
