"""Keys and fields that another program removes from Redis: noticed before the next write, or without effect.

Noticed means that a step raises `StateRegressed`, `StateCorrupted` or `StaleAttempt`, or returns another head than the
driver expects.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
import redis

from anchorbolt.errors import StaleAttempt, StateCorrupted, StateError, StateRegressed
from anchorbolt.state_backends.contract import (
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedSlice,
    StateProvider,
    StateStorage,
)
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import FakeRedisStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries
from tests.servers.redis_cluster import RedisCluster
from tests.servers.redis_server import RedisServer
from tests.state_backends.redis.test_redis_servers import NS, opened, provider_of

WINNERS = ["a" * 32, "b" * 32, "c" * 32]
LOSER = "d" * 32
UPDATES: list[dict[bytes, bytes | None]] = [
    {b"%d" % number: b"0" for number in range(30)},
    {b"%d" % number: b"1" if number % 3 else None for number in range(20, 60)},
    {b"%d" % number: b"2" if number % 4 else None for number in range(10, 90)},
]

Take = Callable[[StateStorage], Any]


def wave(txid: int) -> list[tuple[str, Take]]:
    """Return the steps of a wave, in their order; each task's attempt has two slices, and another attempt loses."""
    fence, winner, base = Fence(1, txid), WINNERS[txid], txid - 1
    items = list(UPDATES[txid].items())
    slices = [dict(items[:15]), dict(items[15:])]
    at = ReadPosition(base, WINNERS[base] if base >= 0 else "")
    seals: list[Seal] = []

    def stage(attempt: str, number: int) -> Take:
        return lambda storage: seals.append(
            storage.stage(StagedSlice(fence, txid, attempt, base, number, slices[number], CODEC))
        )

    def read(storage: StateStorage) -> object:
        return storage.get_many(list(UPDATES[txid]), winner, at._replace(staged=seals[-1]))

    return [
        ("fence", lambda storage: storage.raise_fence(fence)),
        ("loser", stage(LOSER, 0)),
        ("first slice", stage(winner, 0)),
        ("read", read),
        ("second slice", stage(winner, 1)),
        ("read all", read),
        ("scan", lambda storage: entries(storage, winner, 7, at._replace(staged=seals[-1]))),
        ("seal", lambda storage: storage.seal(fence, winner, seals[-1])),
        ("commit", lambda storage: storage.commit(fence, txid, winner)),
        ("head", lambda storage: storage.head()),
    ]


STEPS = [(txid, name) for txid in range(len(WINNERS)) for name, _ in wave(txid)]


def run(provider: StateProvider, harm: Callable[[], None], before: tuple[int, str]) -> tuple[list[Any], bool]:
    """Run all waves, with the harm before one step. Return the results of the steps, and whether it was noticed."""
    results: list[Any] = []
    with opened(provider) as storage:
        storage.claim()
        for txid in range(len(WINNERS)):
            for name, take in wave(txid):
                if (txid, name) == before:
                    harm()
                try:
                    results.append(take(storage))
                except (StateRegressed, StateCorrupted, StaleAttempt):
                    return results, True
        return [*results, entries(storage)], False


def harms(client: Any, key: bytes, chance: random.Random) -> dict[str, Callable[[], object]]:
    def delete_fields() -> None:
        fields = client.hkeys(key)
        client.hdel(key, *chance.sample(fields, chance.randint(1, len(fields))))

    return {
        "DEL": lambda: client.delete(key),
        "UNLINK": lambda: client.unlink(key),
        "HDEL": delete_fields,
        "EXPIRE": lambda: client.pexpire(key, 0),
        "RENAME": lambda: client.rename(key, key + b"-away"),
        "FLUSHDB": lambda: client.flushdb(),
    }


def check(provider: StateProvider, client: Any, seed: int) -> bool:
    """Remove something at a random moment; return whether there was anything to remove."""
    chance = random.Random(seed)
    before = chance.choice(STEPS)
    done = []

    def harm() -> None:
        keys = sorted(client.keys("*"))
        if keys:
            name, act = chance.choice(list(harms(client, chance.choice(keys), chance).items()))
            act()
            done.append(name)

    found, noticed = run(provider, harm, before)
    expected, _ = run(MemoryStateProvider(), lambda: None, before)
    for result, wanted in zip(found, expected, strict=not noticed):
        if isinstance(wanted, NamespaceHead) and (result.committed, result.winner) != (wanted.committed, wanted.winner):
            break  # the driver compares txid and winner
        assert result == wanted, f"seed {seed}: {done} before {before} was not noticed and had an effect"
    client.flushall()
    return bool(done)


@pytest.mark.parametrize("block", range(4))
def test_a_deletion_at_any_moment_is_noticed_or_has_no_effect(
    redis_provider: StateProvider, redis_database: RedisServer, block: int
) -> None:
    with redis_database.client() as client:
        harmed = [check(redis_provider, client, seed) for seed in range(block * 100, block * 100 + 100)]
    assert sum(harmed) > 80


def test_a_deletion_in_a_cluster_is_noticed_or_has_no_effect(
    redis_cluster_provider: StateProvider, redis_cluster: RedisCluster
) -> None:
    with redis_cluster.master_of(f"{{{NS}}}").client() as client:
        harmed = [check(redis_cluster_provider, client, seed) for seed in range(1_000, 1_100)]
    assert sum(harmed) > 80


@pytest.mark.parametrize("remove", ["DEL", "HDEL"])
@pytest.mark.parametrize("step", ["head", "raise_fence", "get_many", "stage", "write", "overwrite", "rollback"])
def test_every_step_names_what_was_expected_and_what_was_found(
    redis_provider: StateProvider, redis_database: RedisServer, remove: str, step: str
) -> None:
    steps: dict[str, Take] = {
        "head": lambda storage: storage.head(),
        "raise_fence": lambda storage: storage.raise_fence(Fence(1, 1)),
        "get_many": lambda storage: storage.get_many([b"a"], None, ReadPosition(0, winner)),
        "stage": lambda storage: storage.stage(StagedSlice(FIRST, 1, LOSER, 0, 0, {b"a": b"2"}, CODEC)),
        "write": lambda storage: storage.write(FIRST, {b"w": b"1"}, CODEC),
        "overwrite": lambda storage: storage.write(FIRST, {b"b": b"2"}, CODEC),
        "rollback": lambda storage: storage.rollback(FIRST),
    }
    with opened(redis_provider) as storage, redis_database.client() as client:
        winner = committed(storage, [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
        client.execute_command(remove, NS, *(["b"] if remove == "HDEL" else []))
        left = {key: client.hgetall(key) for key in client.keys("*")}
        with pytest.raises(StateRegressed) as noticed:
            steps[step](storage)
        assert (noticed.value.namespace, noticed.value.expected) == (NS, "3 entries")
        assert noticed.value.found == ("0 entries" if remove == "DEL" else "2 entries")
        assert {key: client.hgetall(key) for key in client.keys("*")} == left


@pytest.mark.parametrize("step", ["raise_fence", "stage", "seal", "rollback"])
def test_a_fence_that_is_removed_during_the_first_wave_is_noticed_before_the_next_write(
    redis_provider: StateProvider, redis_database: RedisServer, step: str
) -> None:
    first = StagedSlice(FIRST, 0, LOSER, -1, 0, {b"a": b"1"}, CODEC)
    steps: dict[str, Take] = {
        "raise_fence": lambda storage: storage.raise_fence(Fence(1, 1)),
        "stage": lambda storage: storage.stage(StagedSlice(FIRST, 0, LOSER, -1, 1, {b"b": b"1"}, CODEC)),
        "seal": lambda storage: storage.seal(FIRST, LOSER, seal),
        "rollback": lambda storage: storage.rollback(FIRST),
    }
    with opened(redis_provider) as storage, redis_database.client() as client:
        seal = storage.stage(first)
        client.delete(f"{NS}$fence")
        with pytest.raises(StateCorrupted):
            steps[step](storage)
        assert not client.exists(f"{NS}$fence")


def test_an_unfolded_update_that_was_removed_is_not_read_as_the_committed_one(
    redis_provider: StateProvider, redis_database: RedisServer
) -> None:
    with opened(redis_provider) as storage, redis_database.client() as client:
        winner = committed(storage, [(b"a", b"1")])
        seal = storage.stage(StagedSlice(FIRST, 1, LOSER, 0, 0, {b"a": b"2", b"b": b"2"}, CODEC))
        at = ReadPosition(0, winner, seal)
        assert storage.get_many([b"a"], LOSER, at) == [b"2"]
        client.hdel(f"{NS}$prepare${LOSER}", "ka")
        with pytest.raises(StateError):
            storage.get_many([b"a"], LOSER, at)
        with pytest.raises(StateError):
            entries(storage, LOSER, at=at)


def test_a_namespace_of_an_older_version_which_counted_nothing_is_refused(redis_database: RedisServer) -> None:
    with redis_database.client() as client:
        client.hset(NS, mapping={b"k": b"v"})
        client.hset(f"{NS}$txid", mapping={"prepare": "7", "commit": "7"})
        client.hset(f"{NS}$fence", mapping={"generation": "1", "seq": "3", "winner": LOSER, "codec": CODEC})
    with opened(provider_of(redis_database)) as storage, pytest.raises(StateCorrupted):
        storage.head()


def test_a_deletion_on_fakeredis_is_noticed_too() -> None:
    provider = FakeRedisStateProvider()
    with opened(provider) as storage:
        committed(storage, [(b"a", b"1"), (b"b", b"1")])
        client: redis.Redis = vars(storage)["_client"].address.connect()
        client.hdel(NS, b"a")
        with pytest.raises(StateRegressed):
            storage.head()
