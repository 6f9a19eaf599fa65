"""Redis: the layout, large commits cut off, and data that somebody else has written."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis

from anchorbolt.errors import ConfigError, StateCorrupted
from anchorbolt.state_backends.contract import Fence, StateStorage
from anchorbolt.state_backends.redis import RedisStateProvider
from anchorbolt.state_backends.redis import scripts as redis_scripts
from anchorbolt.testing.conformance.base import FIRST, Items, committed, entries, stage, stage_slice, staged
from tests.cli.command import wait_until
from tests.conftest import StartRedis
from tests.servers.redis_server import DURABLE, RedisServer
from tests.state_backends.redis.test_redis_servers import NS, opened, provider_of
from tests.state_backends.same_everywhere import cut_off, finish_half_applied, work_in_threads

OLD = {b"%d" % number: b"old" for number in range(10_000)}
UPDATES: dict[bytes, bytes | None] = {b"%d" % number: b"new" if number % 5 else None for number in range(5_000, 25_000)}
NEW = {key: value for key, value in {**OLD, **UPDATES}.items() if value is not None}


@pytest.fixture
def storage(redis_provider: RedisStateProvider) -> Iterator[StateStorage]:
    with opened(redis_provider) as storage:
        yield storage


@pytest.fixture
def client(redis_database: RedisServer) -> Iterator[redis.Redis]:
    with redis_database.client() as client:
        yield client


def sliced(updates: dict[bytes, bytes | None]) -> list[Items]:
    items = list(updates.items())
    return [items[start : start + 3_000] for start in range(0, len(items), 3_000)]


def names(client: redis.Redis) -> set[str]:
    return {key.decode() for key in client.scan_iter()}


@contextmanager
def corrupted_and_unchanged(client: redis.Redis) -> Iterator[None]:
    kept = {key: client.dump(key) for key in names(client)}
    with pytest.raises(StateCorrupted, match=NS):
        yield
    assert {key: client.dump(key) for key in names(client)} == kept


def cut_off_commit(storage: StateStorage, after: int) -> AbstractContextManager[None]:
    """Let the connection break within a commit, after so many runs of the script that applies it."""
    return cut_off(vars(storage)["_client"], "run", after, redis_scripts.COMMIT)


def test_the_keys_are_those_of_storm_and_three_more(storage: StateStorage, client: redis.Redis) -> None:
    storage.claim()
    assert names(client) == {f"{NS}$fence"}
    winner, _ = stage(storage, [(b"a", b"1")])
    loser, _ = stage(storage, [(b"a", b"2")])
    staging = {f"{NS}$fence", f"{NS}$attempts", f"{NS}$prepare${winner}", f"{NS}$prepare${loser}"}
    assert names(client) == staging
    storage.seal(FIRST, winner, stage_slice(storage, winner, 1, {b"b": b""}))
    storage.commit(FIRST, 0, winner)
    assert names(client) == {NS, f"{NS}$txid", f"{NS}$fence"}
    assert client.hgetall(NS) == {b"a": b"1", b"b": b""}
    assert client.hgetall(f"{NS}$txid") == {b"prepare": b"0", b"commit": b"0"}
    stage(storage, [(b"a", b"3")], txid=1, base=0)
    attempt, _ = stage(storage, [(b"a", b"4")], txid=1, base=0, fence=Fence(1, 1))  # drops the one below its fence
    assert names(client) == {NS, f"{NS}$txid", f"{NS}$fence", f"{NS}$attempts", f"{NS}$prepare${attempt}"}
    storage.rollback(Fence(1, 1))
    assert names(client) == {NS, f"{NS}$txid", f"{NS}$fence"}


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_a_large_commit_that_was_cut_off_is_finished_by_another_driver(
    redis_provider: RedisStateProvider, client: redis.Redis, runs: int
) -> None:
    with opened(redis_provider) as storage:
        committed(storage, *sliced(dict(OLD)))
        stage(storage, [(b"loser", b"1")], txid=1, base=0)
        attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
        storage.get_many([b"0"], attempt)
    with opened(redis_provider) as storage, cut_off_commit(storage, runs):
        storage.commit(FIRST, 1, attempt)

    assert names(client) == {NS, f"{NS}$txid", f"{NS}$fence", f"{NS}$attempts", f"{NS}$prepare"}
    assert client.hgetall(f"{NS}$txid") == {b"prepare": b"1", b"commit": b"0"}
    finish_half_applied(redis_provider, NS, attempt, NEW)
    assert names(client) == {NS, f"{NS}$txid", f"{NS}$fence"}


def test_what_was_acknowledged_survives_a_kill_and_the_handle_goes_on(start_redis: StartRedis) -> None:
    server = start_redis(**DURABLE)
    with opened(provider_of(server)) as storage:
        committed(storage, *sliced(dict(OLD)))
        attempt = staged(storage, *sliced(UPDATES), txid=1, base=0)
        with cut_off_commit(storage, 2):
            storage.commit(FIRST, 1, attempt)
        before = storage.head()
        server.kill()
        server.start()
        assert storage.head() == before
        storage.commit(FIRST, 1, attempt)
        server.kill()
        server.start()
        assert storage.head().committed == 1
        assert entries(storage) == NEW


def test_a_lost_script_cache_is_filled_again(storage: StateStorage, client: redis.Redis) -> None:
    storage.claim()
    client.script_flush()
    assert storage.claim() == Fence(2, 0)


def test_connections_that_the_server_closed_are_replaced(storage: StateStorage, client: redis.Redis) -> None:
    committed(storage, [(b"a", b"1")])
    client.client_kill_filter(_type="normal", skipme=True)
    assert storage.get_many([b"a"]) == [b"1"]


def test_storages_of_a_process_share_connections_and_the_last_one_closes_them(start_redis: StartRedis) -> None:
    server = start_redis()  # nobody else's, whose connections would be counted
    provider = provider_of(server)
    with server.client() as client:
        storages = [provider.open(f"{NS}{number}") for number in range(20)]
        for storage in storages:
            storage.claim()
        assert len(client.client_list()) == 2
        for storage in storages[:-1]:
            storage.close()
        assert storages[-1].claim() == Fence(2, 0)
        assert len(client.client_list()) == 2
        storages[-1].close()
        wait_until(lambda: len(client.client_list()) == 1, "Redis to see that the connection is closed")


def test_a_provider_of_ones_own_may_have_more_settings(redis_database: RedisServer) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(RedisStateProvider):
        region: str = "eu"

    with closing(Mine(redis_database.host, redis_database.port).open(NS)) as storage:
        assert storage.claim() == Fence(1, 0)


def test_threads_do_not_get_each_others_answers(redis_provider: RedisStateProvider) -> None:
    work_in_threads(redis_provider, NS, 20)


def test_namespaces_are_found_among_many_other_keys(redis_provider: RedisStateProvider, client: redis.Redis) -> None:
    client.mset({f"other-{number}": "x" for number in range(5_000)})
    client.mset({"$fence": "x", "a*b$fence": "x", "words:x y$fence": "x"})
    for number in range(30):
        with closing(redis_provider.open(f"{NS}{number}")) as storage:
            storage.claim()
    assert sorted(redis_provider.namespaces("words:")) == sorted(f"{NS}{number}" for number in range(30))
    assert list(redis_provider.namespaces("w?rds")) == []
    assert list(redis_provider.namespaces("*")) == []


STEPS: dict[str, Callable[[StateStorage, str], object]] = {
    "head": lambda storage, _: storage.head(),
    "raise_fence": lambda storage, _: storage.raise_fence(Fence(5, 0)),
    "stage": lambda storage, _: stage(storage, [(b"a", b"3")], fence=Fence(5, 0), txid=1, base=0),
    "commit": lambda storage, attempt: storage.commit(Fence(5, 0), 1, attempt),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(
    ("suffix", "field", "value"),
    [
        ("$fence", b"generation", b"nan"),
        ("$fence", b"seq", b"9" * 5000),
        ("$fence", b"winner", b"\xff"),
        ("$txid", b"commit", b"zero"),
        ("$txid", b"commit", b""),
        ("$attempts", None, b"garbage"),
        ("$attempts", None, b"v2 1 0 x 0 2 0 0 1"),
        ("$attempts", None, b"v2 1 0 1 0 2 0 0"),
        ("$attempts", None, b"1 0 1 0 2 0 0 1 1"),
    ],
)
def test_damaged_bookkeeping_is_reported_or_overwritten_and_no_data_changes(
    storage: StateStorage, client: redis.Redis, step: str, suffix: str, field: bytes | None, value: bytes
) -> None:
    committed(storage, [(b"a", b"1")])
    attempt = staged(storage, [(b"a", b"2")], txid=1, base=0)
    client.hset(NS + suffix, field or attempt, value)
    if field == b"winner" and step in ("stage", "commit"):
        STEPS[step](storage, attempt)  # needs no winner; a commit writes a new one
        assert step == "stage" or storage.head().winner == attempt
        return
    with pytest.raises(StateCorrupted, match=NS):
        STEPS[step](storage, attempt)
    assert client.hgetall(NS) == {b"a": b"1"}


@pytest.mark.parametrize("suffix", ["", "$fence", "$txid", "$attempts"])
def test_a_key_of_another_type_is_reported_before_anything_is_written(
    storage: StateStorage, client: redis.Redis, suffix: str
) -> None:
    attempt = staged(storage, [(b"a", b"1")])
    client.delete(NS + suffix)
    client.set(NS + suffix, "a string")
    with corrupted_and_unchanged(client):
        storage.commit(Fence(2, 0), 0, attempt)


@pytest.mark.parametrize("damage", [b"\xc1", b"", b"\xdd\xff\xff\xff\xff", b"\x92\xa1a", None])
def test_a_damaged_chunk_stops_the_commit_before_anything_is_written(
    storage: StateStorage, client: redis.Redis, damage: bytes | None
) -> None:
    committed(storage, [(b"a", b"1")])
    attempt = staged(storage, [(b"a", b"2")], [(b"b", b"2")], txid=1, base=0)
    if damage is None:
        client.hdel(f"{NS}$prepare${attempt}", "1")
    else:
        client.hset(f"{NS}$prepare${attempt}", "1", damage)
    with corrupted_and_unchanged(client):
        storage.commit(Fence(2, 0), 1, attempt)


@pytest.mark.parametrize("options", [{"port": 0}, {"port": 65536}, {"database": -1}, {"timeout_ms": 0}])
def test_impossible_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=str(next(iter(options.values())))):
        RedisStateProvider(**options)
