"""The transactional spouts over Redis streams, on a server: what a batch holds, in each try of it."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from anchorbolt.errors import ConfigError, StateRegressed, TopologyError
from anchorbolt.serialization import pack, unpack
from anchorbolt.state_backends.redis.streams import next_id
from anchorbolt.streams import OutputFieldsDeclarer
from anchorbolt.transactional import OpaqueRedisTransactionalSpout, RedisTransactionalSpout
from tests.servers.redis_server import RedisServer
from tests.spouts.redis_streams import add, add_many
from tests.transactional.redis.redis_batches import RedisSpout, place_of, running

KINDS = (RedisTransactionalSpout, OpaqueRedisTransactionalSpout)


@pytest.fixture
def client(redis_database: RedisServer) -> Iterator[redis.Redis]:
    with redis_database.client() as client:
        yield client


@pytest.fixture
def place(redis_database: RedisServer) -> dict[str, Any]:
    return place_of(redis_database)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_go_on_from_each_other_in_every_stream(
    kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis
) -> None:
    spout = kind(["a", "b", "never"], ["text"], take=3, **place)
    with running(spout) as run:
        assert run.coordinator.number_of_partitions() == 3
        assert not run.is_ready()
        assert run.new_batch() == {}
        add(client, *"abcde", key="a")
        add(client, *"xy", key="b")
        assert run.is_ready()
        assert run.new_batch() == {0: ["a", "b", "c"], 1: ["x", "y"]}
        assert run.is_ready()
        assert run.new_batch() == {0: ["d", "e"]}
        assert not run.is_ready()
        assert run.new_batch() == {}
        add(client, "z", key="b")
        assert run.is_ready()
        metadata = run.metadata
    with running(spout) as run:
        run.metadata = unpack(pack(metadata))
        assert run.is_ready()
        assert run.new_batch() == {1: ["z"]}
        assert not run.is_ready()


@pytest.mark.parametrize("kind", KINDS)
def test_the_tuples_have_the_attempt_and_the_fields(
    kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis
) -> None:
    client.xadd("a", {"word": "é", "count": 7, "other": "x"})
    client.xadd("a", {"count": b"\xff"})
    spout = kind("a", ["count", "word"], attempt_field="attempt", **place)
    declarer = OutputFieldsDeclarer("lines")
    spout.declare_output_fields(declarer)
    assert declarer.streams["default"].fields == ("attempt", "count", "word")
    with running(spout) as run:
        assert run.new_batch() == {0: [("7", "é"), (b"\xff", None)]}
    with running(kind("a", ["word"], decode=False, **place)) as run:
        assert run.new_batch() == {0: ["é".encode(), None]}


def test_a_batch_is_emitted_again_with_the_same_entries_while_others_are_added(
    place: dict[str, Any], client: redis.Redis
) -> None:
    with running(RedisTransactionalSpout(["a", "b"], ["text"], take=100, **place)) as run:
        batches = []
        for number in range(5):
            add_many(client, (f"{number}-{each}" for each in range(40)), key="a")
            emitted = run.try_batch()
            add(client, "late", key="a")
            for _ in range(2):
                assert run.again(0, run.tried[0]) == emitted[0]
            batches.append((emitted[0], run.tried[0]))
            run.commit()
        for emitted_before, metadata in batches:
            assert run.again(0, metadata) == emitted_before
        assert run.again(1, None) == []
        stored: Any = client.xrange("a", max=run.metadata[0][2])
        assert [text for texts, _ in batches for text in texts] == [fields[b"text"].decode() for _, fields in stored]


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_batch_is_read_in_pages(kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis) -> None:
    texts = [str(number) for number in range(5_500)]
    add_many(client, texts, key="a")
    client.config_resetstat()
    with running(kind("a", ["text"], take=2_500, **place)) as run:
        metadata = []
        for start in (0, 2_500):
            assert run.new_batch() == {0: texts[start : start + 2_500]}
            metadata.append(run.metadata[0])
        if kind is RedisTransactionalSpout:
            assert [run.again(0, each) for each in metadata] == [texts[:2_500], texts[2_500:5_000]]
        assert run.new_batch() == {0: texts[5_000:]}
    calls: Any = client.info("commandstats")
    assert calls["cmdstat_xrange"]["calls"] == (13 if kind is RedisTransactionalSpout else 7)


def test_an_opaque_batch_that_is_tried_again_has_what_is_there_then(place: dict[str, Any], client: redis.Redis) -> None:
    ids = add(client, *"abcd", key="a")
    with running(OpaqueRedisTransactionalSpout("a", ["text"], take=4, **place)) as run:
        assert run.new_batch() == {0: [*"abcd"]}
        ids = add(client, *"efgh", key="a")
        assert run.try_batch() == {0: [*"efgh"]}
        client.xdel("a", ids[0], ids[2])
        add(client, *"ij", key="a")
        assert run.try_batch() == {0: [*"fhij"]}
        client.xtrim("a", maxlen=1, approximate=False)
        assert run.new_batch() == {0: ["j"]}
        client.delete("a")
        assert run.new_batch() == {}
        assert not run.is_ready()


def delete_first(client: redis.Redis, ids: list[str]) -> None:
    client.xdel("a", ids[0])


def delete_middle(client: redis.Redis, ids: list[str]) -> None:
    client.xdel("a", ids[2])


def trim(client: redis.Redis, ids: list[str]) -> None:
    client.xtrim("a", maxlen=3, approximate=False)


def delete_stream(client: redis.Redis, ids: list[str]) -> None:
    client.delete("a")


def make_others(client: redis.Redis, ids: list[str]) -> None:
    """Replace the stream by one with as many entries within the range of the batch."""
    client.delete("a")
    for id in (next_id(id) for id in ids[:-1]):
        client.xadd("a", {"text": "other"}, id=id)
    client.xadd("a", {"text": "other"}, id=ids[-1])


@pytest.mark.parametrize(
    ("lose", "left"), [(delete_first, 3), (delete_middle, 3), (trim, 1), (delete_stream, 0), (make_others, 4)]
)
def test_a_batch_that_lost_entries_is_not_emitted_again(
    lose: Any, left: int, place: dict[str, Any], client: redis.Redis
) -> None:
    with running(RedisTransactionalSpout("a", ["text"], take=4, **place)) as run:
        ids = [f"{number}-1" for number in range(1, 7)]
        for id in ids:
            client.xadd("a", {"text": "x"}, id=id)
        assert run.new_batch() == {0: ["x"] * 4}
        lose(client, ids[:4])
        with pytest.raises(StateRegressed, match="OpaqueRedisTransactionalSpout") as caught:
            run.again(0, run.metadata[0])
        assert caught.value.expected == "4 entries with ids from 1-1 to 4-1"
        assert caught.value.found.partition(" ")[0] == str(left)
        assert all(part in caught.value.message for part in ("'a'", f"{place['port']}", caught.value.found))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entries", [0, 1])
def test_a_stream_that_was_made_again_with_lower_ids_is_noticed_only_by_the_idempotent_spout(
    kind: type[RedisSpout], entries: int, place: dict[str, Any], client: redis.Redis
) -> None:
    with running(kind(["a", "b"], ["text"], **place)) as run:
        client.xadd("a", {"text": "x"}, id="5-3")
        assert run.new_batch() == {0: ["x"]}
        client.xtrim("a", maxlen=0)
        assert not run.is_ready()
        client.delete("a")
        assert not run.is_ready()
        assert run.new_batch() == {}
        client.xgroup_create("a", "group", mkstream=True)
        for number in range(entries):
            client.xadd("a", {"text": "y"}, id=f"5-{number + 1}")
        if kind is RedisTransactionalSpout:
            for call in (run.is_ready, run.try_batch):
                with pytest.raises(StateRegressed) as caught:
                    call()
                assert (caught.value.expected, caught.value.found) == ("5-3", f"{'5-1' if entries else '0-0'}")
        else:
            assert not run.is_ready()
            assert run.new_batch() == {}
        client.xadd("a", {"text": "z"}, id="5-4")
        assert run.is_ready()
        assert run.new_batch() == {0: ["z"]}


@pytest.mark.parametrize("kind", KINDS)
def test_the_highest_second_number_of_an_id_is_passed(
    kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis
) -> None:
    client.xadd("a", {"text": "x"}, id=f"5-{2**64 - 1}")
    with running(kind("a", ["text"], **place)) as run:
        assert run.new_batch() == {0: ["x"]}
        assert not run.is_ready()
        client.xadd("a", {"text": "y"}, id="6-0")
        assert run.is_ready()
        assert run.new_batch() == {0: ["y"]}


@pytest.mark.parametrize("kind", KINDS)
def test_one_round_trip_tells_whether_a_batch_is_ready(
    kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis
) -> None:
    keys = [f"stream-{number}" for number in range(20)]
    for key in keys[:10]:
        add(client, "x", key=key)
    with running(kind(keys, ["text"], **place)) as run:
        run.new_batch()
        assert not run.is_ready()
        before: Any = client.info("stats")
        assert not run.is_ready()
        after: Any = client.info("stats")
    commands = after["total_commands_processed"] - before["total_commands_processed"] - 1
    assert commands == (30 if kind is RedisTransactionalSpout else 20)
    # A server reads what one round trip brings at one time; INFO itself is read once.
    assert after["total_reads_processed"] - before["total_reads_processed"] == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_holds_no_stream_is_refused(
    kind: type[RedisSpout], place: dict[str, Any], client: redis.Redis
) -> None:
    client.set("a", "text")
    with running(kind(["b", "a"], ["text"], **place)) as run:
        for call in (run.is_ready, run.try_batch):
            with pytest.raises(ConfigError, match="'a'"):
                call()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metadata", [["b", "1-1", "1-1", 1], 7, ["a"]], ids=str)
def test_metadata_of_another_stream_or_spout_is_refused(
    kind: type[RedisSpout], metadata: Any, place: dict[str, Any]
) -> None:
    with running(kind(["a", "b"], ["text"], **place)) as run:
        run.metadata = {0: metadata}
        for call in (run.is_ready, run.try_batch):
            with pytest.raises(TopologyError, match="partition 0"):
                call()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("error", "named", "arguments"),
    [
        (TopologyError, "streams", {"streams": ""}),
        (TopologyError, "streams", {"streams": ["a", "b", "a"]}),
        (TopologyError, "fields", {"fields": []}),
        (TopologyError, "take", {"take": 0}),
        (TopologyError, "take", {"take": True}),
        (TopologyError, "attempt_field", {"attempt_field": "text"}),
        (TopologyError, "attempt_field", {"attempt_field": ""}),
        (TopologyError, "decode", {"decode": None}),
        (ConfigError, "port", {"port": 0}),
        (ConfigError, "host", {"host": "redis://:secret@server"}),
        (ConfigError, "nodes", {"nodes": ["a:1"], "port": 7}),
        (ConfigError, "password", {"password": "secret", "password_env": "B"}),
        (ConfigError, "NO_SUCH_VARIABLE", {"password_env": "NO_SUCH_VARIABLE"}),
        (ConfigError, "tls", {"tls": {"kca": "x"}}),
    ],
    ids=str,
)
def test_an_argument_that_makes_no_sense_is_refused_by_its_name(
    kind: type[RedisSpout], error: type[Exception], named: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(error, match=named) as caught:
        kind(**{"streams": "a", "fields": ["text"], **arguments})
    assert "secret" not in repr(pickle.dumps(caught.value))
