"""What the migration refuses, or cannot do: an error says what to do, and nothing is changed, or nothing half done."""

from typing import Any

import pytest

from anchorbolt.config.providers import TlsSettings
from anchorbolt.config.secret import Secret
from anchorbolt.errors import AnchorboltError, ConfigError, StateUnavailable
from anchorbolt.state_backends.redis.addresses import RedisServer as Address
from anchorbolt.state_backends.redis.storm_hashes import RedisHashes
from tests.migration_tools.base64_to_binary.conftest import StartStore, Store, actions, refusal
from tests.migration_tools.base64_to_binary.listening import Once
from tests.migration_tools.storm_data import storm_1_1, storm_1_2, words
from tests.servers.redis_cluster import wait_until
from tests.servers.redis_server import DURABLE, RedisUser
from tests.support.certificates import Certificates

OLD = storm_1_1(words(3_000))


def test_a_namespace_that_is_not_there_is_refused(store: Store) -> None:
    assert "has no namespace words-1: check its name" in refusal(store.migrate("words-1"))
    assert store.everything() == {}


@pytest.mark.parametrize("key", ["words-1", "words-1$prepare", "words-1_old", "words-1$txid"])
def test_a_key_of_another_type_is_refused_by_name(store: Store, key: str) -> None:
    if key != "words-1":
        store.put("words-1", OLD)
    store.router.set(key, "text")
    message = refusal(store.migrate("words-1"))
    assert f"{key} in " in message
    assert "is a string, not a hash" in message
    assert "is a string, not a hash" in refusal(store.undo("words-1"))
    assert store.router.get(key) == b"text"


@pytest.mark.parametrize("name", ["words-1$prepare", "words-1$txid", ""])
def test_a_part_of_a_namespace_is_not_taken_for_one(redis: Store, name: str) -> None:
    with pytest.raises(ConfigError):
        redis.migrate(name)


def test_a_hash_that_expires_is_refused(store: Store) -> None:
    store.put("words-1", OLD)
    store.router.expire("words-1", 1_000)
    assert "words-1 expires" in refusal(store.migrate("words-1"))
    assert store.everything() == {"words-1": OLD}


@pytest.mark.parametrize("key", ["words-1", "words-1_old"])
def test_a_hash_or_a_backup_that_expires_is_neither_put_back_nor_relied_upon(store: Store, key: str) -> None:
    store.put("words-1", OLD)
    assert store.migrate("words-1").error is None
    store.router.expire(key, 1_000)
    before = store.everything()
    for command in (store.migrate, store.verify, store.undo, store.discard):
        assert f"{key} expires" in refusal(command("words-1"))
    assert store.everything() == before
    store.router.persist(key)
    assert store.undo("words-1").error is None
    assert store.router.ttl("words-1") == -1


@pytest.mark.parametrize(
    ("login", "message"),
    [
        ({}, "refused the login"),
        ({"password": Secret("wrong-word")}, "refused the login"),
        ({"username": "reader", "password": Secret("its-own")}, "does not permit it to user 'reader'"),
    ],
)
def test_a_wrong_login_is_refused_without_the_password(
    start_store: StartStore, login: dict[str, Any], message: str
) -> None:
    users = {"reader": RedisUser("its-own", "~* +@read +@connection +watch")}
    store = start_store(login, password="right", users=users)
    store.put("words-1", OLD)
    try:
        error = store.migrate("words-1").error
    except ConfigError as raised:
        error = raised
    assert isinstance(error, ConfigError)
    assert message in error.message
    assert "wrong-word" not in repr(error) + error.message
    assert store.everything() == {"words-1": OLD}


def test_a_user_with_only_the_rights_that_are_named_can_do_all_of_it(start_store: StartStore) -> None:
    commands = "type pttl scan hscan hlen hmget hexists hset watch multi exec rename renamenx unlink select"
    rules = " ".join(["~*", *(f"+{command}" for command in commands.split())])
    login = {"username": "mover", "password": Secret("its-own")}
    store = start_store(login, password="right", users={"mover": RedisUser("its-own", rules)})
    store.put("words-1", OLD)
    for command in (store.migrate, store.verify, store.undo, store.migrate, store.discard):
        assert command("words-1").error is None


def test_a_namespace_that_the_user_may_not_touch_does_not_keep_the_others_from_being_migrated(
    start_store: StartStore,
) -> None:
    login = {"username": "mover", "password": Secret("its-own")}
    store = start_store(login, password="right", users={"mover": RedisUser("its-own", "~words-2* +@all")})
    store.put("words-1", OLD)
    store.put("words-2", OLD)
    report = store.migrate("words-1", "words-2")
    assert isinstance(report.error, ConfigError)
    assert "does not permit it to user 'mover'" in report.error.message
    assert actions(report) == {"words-2": "converted"}
    assert store.get("words-1") == OLD


def test_it_works_with_a_password_over_tls(start_store: StartStore, certificates: Certificates) -> None:
    tls = TlsSettings(ca=str(certificates.authority))
    store = start_store({"password": Secret("right"), "tls": tls}, password="right", tls=True)
    store.put("words-1", OLD)
    assert store.migrate("words-1").error is None
    assert store.get("words-1") == storm_1_2(words(3_000))


@pytest.mark.slow
def test_a_read_only_replica_is_refused(start_store: StartStore) -> None:
    source, store = start_store(), start_store()
    source.put("words-1", OLD)
    store.router.execute_command("REPLICAOF", source.server.host, source.server.port)
    wait_until(lambda: store.get("words-1") == OLD, "the replica to have it")
    report = store.migrate("words-1")
    assert isinstance(report.error, StateUnavailable)
    assert "is a read-only replica" in refusal(report)
    assert "name the master" in refusal(report)
    assert store.everything() == source.everything() == {"words-1": OLD}


def test_without_room_nothing_is_changed_and_the_temporary_hash_is_removed(start_store: StartStore) -> None:
    store = start_store(maxmemory_policy="noeviction")
    store.put("words-1", OLD)
    used = store.router.info("memory")["used_memory"]
    store.router.config_set("maxmemory", used + 200_000)
    report = store.migrate("words-1", "words-2")
    assert "has reached its maxmemory" in refusal(report)
    assert "was not tried" in str(report.namespaces[1].error)
    assert store.everything() == {"words-1": OLD}
    store.router.config_set("maxmemory", 0)
    assert store.migrate("words-1").error is None
    assert store.get("words-1") == storm_1_2(words(3_000))


def test_a_server_that_would_evict_the_state_is_refused_before_anything_is_copied(start_store: StartStore) -> None:
    store = start_store(maxmemory="100mb", maxmemory_policy="allkeys-random")
    store.put("words-1", OLD)
    for dry_run in (True, False):
        with pytest.raises(ConfigError, match=r"drops keys when its memory is full.*noeviction"):
            store.migrate("words-1", dry_run=dry_run)
    assert store.everything() == {"words-1": OLD}


def test_a_server_that_wants_replicas_says_so(start_store: StartStore) -> None:
    store = start_store()
    store.put("words-1", OLD)
    store.router.config_set("min-replicas-to-write", 2)
    assert "min-replicas-to-write" in refusal(store.migrate("words-1"))
    assert store.everything() == {"words-1": OLD}


@pytest.mark.slow
@pytest.mark.parametrize("page", [1, 3])
def test_a_redis_that_goes_in_the_middle_leaves_nothing_half_done(start_store: StartStore, page: int) -> None:
    store = start_store({"timeout_ms": 3_000}, **DURABLE)
    store.put("words-1", OLD)
    report = store.migrate("words-1", progress=Once(store.server.kill, page=page))
    assert isinstance(report.error, StateUnavailable)
    store.server.restart()
    found = store.everything()
    assert found.pop("words-1") == OLD
    assert all("$anchorbolt$migrating$" in key for key in found)
    assert store.migrate("words-1").error is None
    assert store.everything() == {"words-1": storm_1_2(words(3_000)), "words-1_old": OLD}


def test_a_watch_whose_connection_was_cut_never_swaps(redis: Store) -> None:
    redis.put("words-1", OLD)

    def cut() -> None:
        redis.router.client_kill_filter(_type="normal", skipme=True)

    report = redis.migrate("words-1", progress=Once(cut, step="converting words-1"))
    assert isinstance(report.error, StateUnavailable)
    assert redis.get("words-1") == OLD
    assert "words-1_old" not in redis.everything()


@pytest.mark.parametrize("is_cluster", [True, False])
def test_a_server_taken_for_a_cluster_or_the_other_way_round_is_said(
    redis: Store, cluster: Store, is_cluster: bool
) -> None:
    at: Any = (cluster if is_cluster else redis).clients[0].connection_pool.connection_kwargs
    kind = Address if is_cluster else type(cluster.address)
    place = (at["host"], at["port"]) if is_cluster else ([f"{at['host']}:{at['port']}"],)
    with RedisHashes(kind(*place)) as hashes, pytest.raises(AnchorboltError) as raised:
        hashes.types([b"words-%d" % number for number in range(20)])
    assert ("add --cluster" if is_cluster else "leave out --cluster") in raised.value.message
