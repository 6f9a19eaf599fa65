"""A `RedisStreamsSpout` on a Redis server: whose entries it emits, and when an entry is no longer pending."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from anchorbolt.errors import ConfigError, StateError
from anchorbolt.spouts import redis_reader
from anchorbolt.spouts.redis_reader import Task
from tests.servers.redis_server import RedisServer
from tests.spouts.collected import running
from tests.spouts.redis_streams import GROUP, KEY, add, add_many, pending, spout_on


@pytest.fixture
def client(redis_database: RedisServer) -> Iterator[redis.Redis]:
    with redis_database.client() as client:
        yield client


@pytest.fixture
def always_sweeping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_reader, "_SWEEP_S", 0.0)


def test_entries_are_pending_until_they_are_acked(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add(client, "a", "b", "c")
    with running(spout_on(redis_database)) as task:
        assert task.read(3) == [(ids[0], ("a",)), (ids[1], ("b",)), (ids[2], ("c",))]
        assert pending(client) == {"words:lines-0": ids}
        task.spout.ack(ids[1])
        assert pending(client) == {"words:lines-0": ids}
        task.spout.flush_acks()
        assert pending(client) == {"words:lines-0": [ids[0], ids[2]]}
        task.ack(ids[0], ids[2])
        assert pending(client) == {}
        assert task.read_times(20) == []


def test_tasks_share_the_entries(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add_many(client, map(str, range(30)))
    with (
        running(spout_on(redis_database, batch=4), 0, 2) as first,
        running(spout_on(redis_database, batch=4), 1, 2) as second,
    ):
        found = [first.read(4), second.read(4)]
        for task in (first, second):
            task.read_times(20)
        assert {id for part in found for id, _ in part} == set(ids[:8])
        assert set(pending(client)) == {"words:lines-0", "words:lines-1"}


@pytest.mark.usefixtures("always_sweeping")
def test_a_task_never_claims_what_its_siblings_hold(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add(client, "a", "b")
    with (
        running(spout_on(redis_database, claim_after_s=0.000_1), 0, 2) as first,
        running(spout_on(redis_database, claim_after_s=0.000_1), 1, 2) as second,
    ):
        assert [id for id, _ in first.read(2)] == ids
        assert second.read_times(50) == []
        assert first.read_times(50) == []
        assert pending(client) == {"words:lines-0": ids}


def test_many_acks_are_sent_without_a_flush(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add_many(client, map(str, range(10_000)))
    with running(spout_on(redis_database)) as task:
        task.read(10_000)
        for id in ids:
            task.spout.ack(id)
        assert pending(client) == {}


def test_a_failed_entry_is_emitted_again_before_new_ones(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add(client, "a", "b", "c")
    with running(spout_on(redis_database)) as task:
        task.read(3)
        later = add(client, "d")
        task.fail(ids[2], ids[0])
        assert task.read(3) == [(ids[2], ("c",)), (ids[0], ("a",)), (later[0], ("d",))]
        task.ack(ids[2])
        task.fail(ids[0])
        assert task.read(1) == [(ids[0], ("a",))]
        assert pending(client) == {"words:lines-0": [ids[0], ids[1], later[0]]}


def test_failed_entries_come_in_batches_too(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add_many(client, map(str, range(10)))
    with running(spout_on(redis_database, batch=4)) as task:
        task.read(10)
        task.fail(*ids)
        assert [len(task.read_times(1)) for _ in range(4)] == [4, 4, 2, 0]


def test_a_task_that_starts_again_finds_its_pending_entries_first(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids = add_many(client, map(str, range(10)))
    with running(spout_on(redis_database)) as task:
        task.read(10)
        task.ack(*ids[2:5])
    add(client, "new")
    with running(spout_on(redis_database, batch=3)) as task:
        found = task.read(8)
        assert [id for id, _ in found[:7]] == ids[:2] + ids[5:]
        assert found[7][1] == ("new",)
        task.ack(*(id for id, _ in found))
        assert pending(client) == {}


@pytest.mark.parametrize("keys", ["lines", ["lines", "more"]])
def test_what_an_earlier_run_has_processed_is_acked_again_without_a_delivery(
    redis_database: RedisServer, client: redis.Redis, keys: Any
) -> None:
    ids = add_many(client, map(str, range(5)))
    prefix = "" if keys == "lines" else "lines:"
    with running(spout_on(redis_database, keys), 1, 2) as task:
        task.read(5)
    with running(spout_on(redis_database, keys), 0, 2) as task:
        assert task.spout.ack_again([f"{prefix}{id}" for id in [*ids[:3], "1-1"]])
        assert pending(client) == {"words:lines-1": ids[3:]}
        assert not task.spout.ack_again([f"{prefix}{ids[3]}", f"gone:{ids[4]}"])
        assert pending(client) == {"words:lines-1": ids[4:]}


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_entries_of_tasks_that_there_are_no_longer_are_claimed_at_once(
    redis_database: RedisServer, client: redis.Redis, tasks: int
) -> None:
    ids = set(add_many(client, map(str, range(50))))
    for index in range(5):
        with running(spout_on(redis_database, batch=10), index, 5) as task:
            task.read(10)
    assert len(pending(client)) == 5
    found: list[str] = []
    for index in range(tasks):
        with running(spout_on(redis_database, batch=3), index, tasks) as task:
            emitted = [id for id, _ in task.read_times(100)]
            task.ack(*emitted)
            found += emitted
    assert sorted(found) == sorted(ids)
    assert pending(client) == {}


@pytest.mark.usefixtures("always_sweeping")
def test_the_entries_of_a_dead_consumer_of_another_name_are_claimed_after_a_time(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids = add(client, "a", "b", "c")
    client.xgroup_create(KEY, GROUP, "0")
    client.xreadgroup(GROUP, b"other-\xff", {KEY: ">"}, count=2)
    with running(spout_on(redis_database, claim_after_s=3600)) as task:
        assert [id for id, _ in task.read(1)] == ids[2:]
        assert task.read_times(20) == []
        client.xclaim(KEY, GROUP, b"other-\xff", 0, ids[:1], idle=3_601_000)
        assert task.read(1) == [(ids[0], ("a",))]
        assert task.read_times(20) == []
        client.xclaim(KEY, GROUP, b"other-\xff", 0, ids[1:2], idle=3_601_000)
        assert task.read(1) == [(ids[1], ("b",))]


@pytest.mark.usefixtures("always_sweeping")
def test_an_entry_of_a_dead_consumer_is_found_behind_those_that_it_got_later(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids = add_many(client, map(str, range(9)))
    client.xgroup_create(KEY, GROUP, "0")
    client.xreadgroup(GROUP, "other", {KEY: ">"})
    client.xclaim(KEY, GROUP, "other", 0, ids[7:8], idle=3_601_000)
    with running(spout_on(redis_database, claim_after_s=3600, batch=2)) as task:
        assert [id for id, _ in task.read(1)] == ids[7:8]
        client.xclaim(KEY, GROUP, "other", 0, ids[1:2], idle=3_601_000)
        assert [id for id, _ in task.read(1)] == ids[1:2]


@pytest.mark.usefixtures("always_sweeping")
def test_entries_that_a_consumer_of_its_own_name_got_elsewhere_are_found(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    with running(spout_on(redis_database)) as task:
        assert task.read_times(5) == []
        ids = add(client, "a")
        client.xreadgroup(GROUP, "words:lines-0", {KEY: ">"})  # a driver that was taken over, and does not know it yet
        assert [id for id, _ in task.read(1)] == ids


@pytest.mark.parametrize("from_start", [True, False])
def test_a_new_group_starts_where_it_is_told_to_and_an_old_one_continues(
    redis_database: RedisServer, client: redis.Redis, from_start: bool
) -> None:
    add(client, "old")
    with running(spout_on(redis_database, from_start=from_start)) as task:
        add(client, "new")
        texts = [("old",), ("new",)] if from_start else [("new",)]
        assert [values for _, values in task.read(len(texts))] == texts
        assert task.read_times(20) == []
    add(client, "newer")
    with running(spout_on(redis_database, from_start=False)) as task:
        assert [values for _, values in task.read(len(texts) + 1)] == [*texts, ("newer",)]


def test_several_streams_are_read_in_turn_and_their_keys_are_part_of_the_ids(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    keys = ["a:1", "b", "empty"]
    ids = {key: add(client, key, key, key=key) for key in keys[:2]}
    with running(spout_on(redis_database, keys, batch=1)) as task:
        found = task.read(4)
        assert [values for _, values in found] == [("a:1",), ("b",), ("a:1",), ("b",)]
        assert {id for id, _ in found} == {f"{key}:{id}" for key in ids for id in ids[key]}
        task.fail(f"b:{ids['b'][0]}")
        assert task.read(1) == [(f"b:{ids['b'][0]}", ("b",))]
        task.ack(*(id for id, _ in found))
        assert [pending(client, key) for key in keys] == [{}, {}, {}]


def test_trimmed_entries_are_acked_counted_and_logged(
    redis_database: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    ids = add_many(client, map(str, range(10)))
    with running(spout_on(redis_database)) as task:
        task.read(10)
        client.xdel(KEY, *ids[:4])
        task.fail(ids[0], ids[9])  # found when it would be emitted again
        with caplog.at_level(logging.WARNING, "anchorbolt.spouts"):
            assert [id for id, _ in task.read_times(5)] == [ids[9]]
        assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [1]
    caplog.clear()
    with running(spout_on(redis_database)) as task, caplog.at_level(logging.WARNING, "anchorbolt.spouts"):
        assert [id for id, _ in task.read_times(20)] == ids[4:]  # found when the task starts again
        assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [3]
        assert pending(client) == {"words:lines-0": ids[4:]}
        client.xtrim(KEY, maxlen=0)
        task.ack(*ids[4:])
        assert pending(client) == {}


def test_a_dead_consumer_whose_entries_were_all_deleted_holds_up_nothing(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids = add(client, "a", "b")
    client.xgroup_create(KEY, GROUP, "0")
    client.xreadgroup(GROUP, "words:lines-3", {KEY: ">"})
    client.xdel(KEY, *ids)
    later = add(client, "c")
    with running(spout_on(redis_database)) as task:
        assert [id for id, _ in task.read_times(20)] == later
        assert pending(client) == {"words:lines-0": later}


def test_no_more_entries_are_pending_than_the_topology_allows(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add_many(client, map(str, range(10)))
    with running(spout_on(redis_database), conf={"topology.max.spout.pending": 4}) as task:
        assert [id for id, _ in task.read_times(20)] == ids[:4]
        task.ack(*ids[:2])
        task.fail(ids[2])
        assert [id for id, _ in task.read_times(20)] == [ids[2], *ids[4:6]]
    with running(spout_on(redis_database), conf={"topology.max.spout.pending": 3}) as task:
        assert [id for id, _ in task.read_times(20)] == ids[2:5]


@pytest.mark.usefixtures("always_sweeping")
def test_an_entry_that_another_program_has_taken_and_a_sibling_claimed_is_no_longer_held(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids, conf = add(client, "a"), {"topology.max.spout.pending": 1}
    spout = spout_on(redis_database, claim_after_s=3600)
    program = next(name for name in map(str, range(100)) if Task("words:lines-", 1, 2).takes_over(name))
    with running(spout, 0, 2, conf) as first, running(spout, 1, 2, conf) as second:
        assert first.read(1) == [(ids[0], ("a",))]
        client.xclaim(KEY, GROUP, program, 0, ids, idle=3_601_000)
        assert second.read(1) == [(ids[0], ("a",))]
        first.spout.recall(ids[0])
        second.ack(ids[0])
        later = add(client, "b")
        assert first.read(1) == [(later[0], ("b",))]
        first.ack(*later)
    assert pending(client) == {}


def test_fields_are_decoded_or_stay_bytes_and_a_missing_one_is_none(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    client.xadd(KEY, {"b": "ü", "a": "x", "other": "y"})
    client.xadd(KEY, {"a": b"\xff", "b": "z"})
    client.xadd(KEY, {"b": ""})
    names = ("a", "b")
    with running(spout_on(redis_database, fields=names)) as task:
        assert [values for _, values in task.read(3)] == [("x", "ü"), (b"\xff", "z"), (None, "")]
    with running(spout_on(redis_database, fields=names, decode=False)) as task:
        assert [values for _, values in task.read(3)] == [(b"x", "ü".encode()), (b"\xff", b"z"), (None, b"")]
    with running(spout_on(redis_database, fields=["a"], decode=False, group="other")) as task:
        assert [values for _, values in task.read(3)] == [(b"x",), (b"\xff",), (None,)]


def test_a_stream_that_was_emptied_is_read_from_its_start(
    redis_database: RedisServer, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:

    def add_as(*ids: str) -> None:
        for id in ids:  # given, since Redis gives an id again to a stream that is made anew within a millisecond
            client.xadd(KEY, {"text": "x"}, id=id)

    add_as("1-0", "2-0")
    with running(spout_on(redis_database, from_start=False)) as task:
        add_as("3-0")
        assert task.read(1) == [("3-0", ("x",))]
        client.flushall()
        with caplog.at_level(logging.WARNING, "anchorbolt.spouts"):
            task.read_until(lambda: bool(caplog.records))
        add_as("4-0")
        assert task.read(1) == [("4-0", ("x",))]
        client.delete(KEY)
        add_as("4-1", "5-0")
        assert [id for id, _ in task.read(2)] == ["4-1", "5-0"]
        task.fail("3-0")  # it is gone with the stream
        task.ack("4-0", "4-1", "5-0")
        assert task.read_times(20) == []
        assert pending(client) == {}


@pytest.mark.parametrize("delivered_to", ["this task", "an earlier run"])
def test_a_group_that_somebody_removed_stops_the_run(
    redis_database: RedisServer, client: redis.Redis, delivered_to: str
) -> None:
    add(client, "a", "b")
    with running(spout_on(redis_database)) as task:
        task.ack(*(id for id, _ in task.read(2)))
        if delivered_to == "this task":
            client.xgroup_destroy(KEY, GROUP)
            with pytest.raises(StateError, match=f"XGROUP CREATE {KEY} {GROUP}"):
                task.read_times(1_000)
            return
    with running(spout_on(redis_database)) as task:
        client.xgroup_destroy(KEY, GROUP)
        with pytest.raises(StateError, match=f"XGROUP CREATE {KEY} {GROUP}"):
            task.read_times(1_000)


def test_a_key_that_holds_no_stream_is_refused(redis_database: RedisServer, client: redis.Redis) -> None:
    client.set(KEY, "text")
    with pytest.raises(ConfigError, match=KEY):
        running(spout_on(redis_database)).__enter__()
    assert client.get(KEY) == b"text"


def test_two_groups_both_get_every_entry(redis_database: RedisServer, client: redis.Redis) -> None:
    ids = add(client, "a")
    for group in ("one", "two"):
        with running(spout_on(redis_database, group=group)) as task:
            found: list[Any] = task.read(1)
            assert [id for id, _ in found] == ids
        assert pending(client, group=group) == {"words:lines-0": ids}


def test_an_acked_entry_is_forgotten_and_emitted_again_when_somebody_sets_the_group_back(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    ids = add(client, "a", "b")
    with running(spout_on(redis_database)) as task:
        task.read(2)
        task.ack(ids[0])
        client.xgroup_setid(KEY, GROUP, "0")
        assert [id for id, _ in task.read_times(50)] == ids[:1]


def test_a_consumer_that_is_alive_is_looked_at_once_in_each_sweep(
    redis_database: RedisServer, client: redis.Redis
) -> None:
    add_many(client, map(str, range(9)))
    client.xgroup_create(KEY, GROUP, "0")
    client.xreadgroup(GROUP, "other", {KEY: ">"})
    client.config_resetstat()
    with running(spout_on(redis_database, batch=2)) as task:
        assert task.read_times(50) == []
    assert client.info("commandstats")["cmdstat_xpending"]["calls"] == 1
