"""Redis servers of all kinds: locked, encrypted, out of reach, out of room, or no Redis at all."""

import pickle
import subprocess
import sys
import traceback
from contextlib import closing
from typing import Any

import hiredis
import pytest

from anchorbolt.config import Secret
from anchorbolt.config.providers import TlsSettings
from anchorbolt.errors import ConfigError, StateError, StateUnavailable, UnsupportedValue
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.contract import ReadPosition, StateProvider, StateStorage
from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes
from anchorbolt.state_backends.state import AttemptScope
from anchorbolt.testing.conformance.base import FIRST, committed, entries, new_attempt, stage, staged
from tests.conftest import StartRedis
from tests.servers.redis_server import RedisServer, RedisUser
from tests.servers.server_process import free_port
from tests.state_backends.fake_server import answering
from tests.support.certificates import Certificates

NS = "words:count-0"
PASSWORD = "correct-horse-battery-staple"
# What the documentation tells an administrator to allow.
RULES = (
    "~words:* -@all +evalsha +eval +multi +exec +scan +hmget +hget +hgetall +hkeys +hlen +hscan +hset +hdel +hincrby "
    "+unlink +rename +select"
)


def provider_of(server: RedisServer, **settings: Any) -> RedisStateProvider:
    return RedisStateProvider(**{"host": server.host, "port": server.port, **settings})


def opened(provider: StateProvider) -> closing[StateStorage]:
    return closing(provider.open(NS))


def check_refusal(
    provider: RedisStateProvider | RedisClusterStateProvider,
    kind: type[StateError | ConfigError],
    *said: str,
    namespace: str = NS,
) -> None:
    """Check the error of the first call, and look for the password in everything that might be printed."""
    with closing(provider.open(namespace)) as storage, pytest.raises(kind) as caught:
        storage.claim()
    error = caught.value
    printed = "".join(traceback.format_exception(error)) + repr(error) + repr(pickle.dumps(error))
    assert PASSWORD not in printed + repr(provider) + provider.describe()
    assert isinstance(error, ConfigError) or error.namespace == namespace
    place = provider.nodes[0] if isinstance(provider, RedisClusterStateProvider) else f"{provider.host}:{provider.port}"
    assert place in provider.describe()
    for words in (place, *said):
        assert words in str(error)


def work(storage: StateStorage) -> None:
    """Take every step once."""
    storage.raise_fence(storage.claim())
    storage.write(FIRST, {b"w": b"1"}, "conformance/1")
    stage(storage, [(b"a", b"0")])
    storage.rollback(FIRST)
    stage(storage, [(b"loser", b"1")])
    attempt = staged(storage, *([(b"%d-%d" % (part, n), b"1") for n in range(2_000)] for part in range(4)))
    assert len(entries(storage, attempt)) == 8_001
    storage.commit(FIRST, 0, attempt)
    winner = committed(storage, [(b"w", None)], txid=1, base=0)
    assert len(entries(storage)) == 8_000
    assert storage.get_many([b"0-0", b"w"], None, ReadPosition(1, winner)) == [b"1", None]


@pytest.mark.parametrize(
    ("options", "login"),
    [
        ({"password": PASSWORD}, {"password": Secret(PASSWORD)}),
        (
            {"users": {"anchor": RedisUser("pw", RULES)}},
            {"username": "anchor", "password": Secret("pw"), "database": 3},
        ),
        ({"tls": True}, {"tls": TlsSettings(verify=False)}),
        ({"maxmemory": "50mb", "maxmemory_policy": "volatile-lru"}, {}),  # our keys never expire
        ({"maxmemory_policy": "allkeys-lru"}, {}),
    ],
    ids=["password", "user with the documented rights", "unverified", "evicts no key of ours", "evicts nothing"],
)
def test_a_server_that_lets_us_in_and_keeps_our_keys_takes_every_step(
    start_redis: StartRedis, options: dict[str, Any], login: dict[str, Any]
) -> None:
    provider = provider_of(start_redis(**options), **login)
    with opened(provider) as storage:
        work(storage)
    assert list(provider.namespaces("words:")) == [NS]


ANCHOR = {"username": "anchor", "password": Secret(PASSWORD)}


@pytest.mark.parametrize(
    ("options", "settings", "kind", "said"),
    [
        ({"password": "another"}, {}, ConfigError, ["username and password"]),
        ({"password": "another"}, {"password": Secret(PASSWORD + "!")}, ConfigError, ["username and password"]),
        *(
            ({"users": {"anchor": RedisUser(PASSWORD, rules)}}, ANCHOR, ConfigError, ["'anchor'", "EVALSHA"])
            for rules in (RULES.replace("words", "other"), f"{RULES} -hincrby", f"{RULES} -evalsha")
        ),
        ({"tls": True}, {"tls": TlsSettings()}, StateUnavailable, ["certificate"]),
        ({"tls": True}, {"timeout_ms": 200}, StateUnavailable, []),
        ({}, {"database": 999}, ConfigError, ["999"]),
        ({}, {"host": "127.0.0.1", "port": free_port(), "timeout_ms": 200}, StateUnavailable, []),
        ({}, {"host": "redis.invalid", "port": 6379, "timeout_ms": 200}, StateUnavailable, []),
        *(
            ({"maxmemory": "50mb", "maxmemory_policy": policy}, {}, ConfigError, [policy, "noeviction"])
            for policy in ("allkeys-lru", "allkeys-random")
        ),
    ],
)
def test_a_server_that_cannot_be_used_as_configured_is_named_and_stays_empty(
    start_redis: StartRedis,
    options: dict[str, Any],
    settings: dict[str, Any],
    kind: type[StateError | ConfigError],
    said: list[str],
) -> None:
    server = start_redis(**options)
    check_refusal(provider_of(server, **settings), kind, *said)
    with server.client() as client:
        assert client.dbsize() == 0


def test_no_number_is_sent(redis_database: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while hiredis formats a number kills the process: a migration died of it, with its copy left behind."""
    kinds, pack = set(), hiredis.pack_command

    def seen(command: Any) -> Any:
        kinds.update(type(part) for part in command)
        return pack(command)

    monkeypatch.setattr(hiredis, "pack_command", seen)
    provider = provider_of(redis_database)
    with opened(provider) as storage:
        work(storage)
    assert list(provider.namespaces()) == [NS]
    with RedisHashes(provider.address) as hashes, hashes.connection(NS.encode()) as connection:
        assert sum(len(page) for page in connection.pages(NS.encode())) == 16_000
    assert kinds <= {bytes, str}


@pytest.mark.parametrize("missing", ["-multi -exec", "-multi", "-exec"])
def test_a_user_who_may_run_no_transaction_reads_by_a_script(start_redis: StartRedis, missing: str) -> None:
    server = start_redis(users={"anchor": RedisUser("pw", f"{RULES} {missing}")})
    with opened(provider_of(server, username="anchor", password=Secret("pw"))) as storage:
        work(storage)
        with server.client() as client:
            client.config_resetstat()
            assert storage.get_many([b"0-0"], None, ReadPosition(1, storage.head().winner)) == [b"1"]
            assert {"cmdstat_multi", "cmdstat_exec"}.isdisjoint(client.info("commandstats"))


@pytest.mark.parametrize("missing", ["hdel", "rename", "unlink"])
def test_a_right_that_is_missing_for_a_commit_leaves_the_data_whole(start_redis: StartRedis, missing: str) -> None:
    server = start_redis(users={"anchor": RedisUser("pw", f"{RULES} -{missing}")})
    provider = provider_of(server, username="anchor", password=Secret("pw"))
    updates = {b"%d" % number: b"1" for number in range(6_000)}
    with opened(provider) as storage, server.client() as client:
        items = list(updates.items())
        attempt = staged(storage, items[:3_000], items[3_000:])
        with pytest.raises(ConfigError, match="anchor"):
            storage.commit(FIRST, 0, attempt)
        assert entries(storage) in ({}, updates)
        client.execute_command("ACL", "SETUSER", "anchor", f"+{missing}")
        storage.commit(FIRST, 0, attempt)
        assert entries(storage) == updates


def test_a_connection_is_encrypted_and_verified(start_redis: StartRedis, certificates: Certificates) -> None:
    server = start_redis(tls=True, tls_auth_clients="yes")
    tls = TlsSettings(**certificates.of_client())
    with opened(pickle.loads(pickle.dumps(provider_of(server, host="localhost", tls=tls)))) as storage:  # noqa: S301
        work(storage)
    # The certificate is not for this name.
    check_refusal(provider_of(server, host="127.0.0.2", tls=tls, timeout_ms=200), StateUnavailable)


def test_a_tls_file_that_is_not_there_is_named_before_connecting() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere/ca\.pem"):
        RedisStateProvider(tls=TlsSettings(ca="/nowhere/ca.pem")).open(NS)


@pytest.mark.parametrize(
    ("reply", "kind", "complaint"),
    [
        (b"", StateUnavailable, "did not answer within 100 ms"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", StateUnavailable, "does not answer as Redis does"),
        (b"-LOADING Redis is loading the dataset in memory\r\n", StateUnavailable, "still loading"),
        (b"-MISCONF Redis is configured to save RDB snapshots\r\n", StateUnavailable, "cannot save to its disk"),
        (b"-BUSY Redis is busy running a script.\r\n", StateUnavailable, "busy with somebody's script"),
        (b"-ERR unknown command 'EVALSHA'\r\n", StateError, "Redis 5 or newer"),
        *(
            pytest.param(reply, ConfigError, "redis-cluster", marks=pytest.mark.slow)
            for reply in (b"-MOVED 866 127.0.0.1:7001\r\n", b"-CLUSTERDOWN Hash slot not served\r\n")
        ),
    ],
)
def test_a_server_that_cannot_serve_is_reported_with_the_reason(
    reply: bytes, kind: type[StateError | ConfigError], complaint: str
) -> None:
    with answering(reply) as port:
        # What answers has time to; what does not is to be found out.
        provider = RedisStateProvider("127.0.0.1", port, timeout_ms=2_000 if reply else 100)
        check_refusal(provider, kind, complaint)


def test_executors_need_not_have_hiredis(redis_database: RedisServer) -> None:
    program = (
        "import sys; sys.modules['hiredis'] = None\n"
        "from anchorbolt.state_backends.redis import RedisClusterStateProvider, RedisStateProvider\n"
        "storage = RedisStateProvider(sys.argv[1], int(sys.argv[2])).open('words:count-0')\n"
        "print(storage.claim().generation)\n"
    )
    arguments = [sys.executable, "-c", program, redis_database.host, str(redis_database.port)]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ended.stdout == "1\n", ended.stderr


def test_a_replica_is_refused_for_writing_and_read_from(start_redis: StartRedis) -> None:
    server = start_redis()
    with opened(provider_of(server)) as storage, server.client() as client:
        committed(storage, [(b"a", b"1")])
        client.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(StateUnavailable, match="read-only replica"):
            storage.claim()
        assert storage.get_many([b"a"]) == [b"1"]
        client.replicaof("NO", "ONE")
        storage.claim()


def test_a_server_without_memory_is_named_and_still_takes_what_was_decided(start_redis: StartRedis) -> None:
    server = start_redis()
    with opened(provider_of(server)) as storage, server.client() as client:
        committed(storage, [(b"a", b"1")])
        attempt = staged(storage, [(b"a", b"2")], txid=1, base=0)
        before = storage.head()
        client.config_set("maxmemory", "1")
        with pytest.raises(StateUnavailable, match="maxmemory"):
            stage(storage, [(b"b", b"x" * 1000)], txid=1, base=0)
        assert storage.head() == before
        assert entries(storage) == {b"a": b"1"}
        storage.commit(FIRST, 1, attempt)
        assert entries(storage) == {b"a": b"2"}
        client.config_set("maxmemory", "0")
        staged(storage, [(b"a", b"3")], txid=2, base=1)
        client.config_set("maxmemory", "1")
        assert storage.rollback(FIRST) == 1
        assert not storage.head().attempts
        client.config_set("maxmemory", "0")
        committed(storage, [(b"a", b"3")], txid=2, base=1)


def test_values_that_redis_does_not_take_are_refused_in_put_with_what_raises_the_limit(start_redis: StartRedis) -> None:
    server = start_redis(proto_max_bulk_len="2mb")
    state: KeyValueState[str, bytes] = KeyValueState(provider_of(server, largest_value=1_000_000).open(NS))
    state.begin(AttemptScope(FIRST, 0, new_attempt()))
    state.put("fits", b"x" * 999_000)
    for key, value in (("large", b"x" * 1_000_001), ("k" * (17 << 20), b"")):
        with pytest.raises(UnsupportedValue) as refused:
            state.put(key, value)
        assert ("proto-max-bulk-len" in str(refused.value)) == (key == "large")
    state.prepare_commit(0)
    state.close()
    with opened(provider_of(server)) as unaware:
        assert unaware.limits is not None
        assert 400 << 20 < unaware.limits.value < 512 << 20
        with pytest.raises(StateError, match="proto-max-bulk-len"):
            stage(unaware, [(b"a", b"x" * 2_200_000)])
