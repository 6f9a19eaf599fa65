"""The example of a provider of one's own keeps the contract, on a real PostgreSQL, from any thread and any process."""

import threading
from contextlib import closing
from typing import Any

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import Fence, StateProvider
from anchorbolt.testing import StateStorageConformance, check_agreement
from anchorbolt.testing.conformance.base import committed, entries, new_namespace, staged
from tests.examples.conftest import PostgresProviderOf
from tests.servers.postgres_server import PostgresServer
from tests.state_backends.processes import claim_at_once, count_up, run, together, use_before_and_after_a_fork


class TestPostgres(StateStorageConformance):
    @pytest.fixture
    def provider(self, postgres_provider: StateProvider) -> StateProvider:
        return postgres_provider


@pytest.mark.slow
def test_it_agrees_with_the_reference(postgres_provider: StateProvider) -> None:
    check_agreement(postgres_provider)


def test_processes_that_make_the_tables_at_the_same_moment_all_succeed(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    provider = postgres_provider_of(postgres_server, schema="made_at_once")
    fences = together(claim_at_once, 4, provider, "processes:counter-0")
    assert sorted(fences) == [Fence(generation, 0) for generation in range(1, 5)]


def test_drivers_that_fence_each_other_lose_no_update(postgres_provider: StateProvider) -> None:
    namespace = new_namespace()
    done = together(count_up, 2, postgres_provider, namespace, 15)
    with closing(postgres_provider.open(namespace)) as storage:
        assert storage.get_many([b"counter"]) == [b"%d" % sum(done)]
        assert storage.head().committed == sum(done) - 1


def test_a_storage_goes_on_after_a_fork_in_the_child_and_in_the_parent(postgres_provider: StateProvider) -> None:
    namespace = new_namespace()
    assert run(use_before_and_after_a_fork, postgres_provider, namespace) == 0
    with closing(postgres_provider.open(namespace)) as storage:
        assert entries(storage) == {b"a": b"parent", b"b": b"child"}


def connections(server: PostgresServer, name: str) -> int:
    with server.client() as client:
        [(count,)] = client.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'anchorbolt' AND datname = %s", (name,)
        ).fetchall()
    return int(count)


def test_each_thread_has_one_connection_for_all_namespaces_and_none_is_left_after_the_last_is_closed(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    with postgres_server.client() as client:
        client.execute("CREATE DATABASE counted")
    provider = postgres_provider_of(postgres_server, database="counted")
    storages = [provider.open(new_namespace()) for _ in range(3)]
    assert connections(postgres_server, "counted") == 0
    for storage in storages:
        storage.claim()
    assert connections(postgres_server, "counted") == 1
    other = threading.Thread(target=storages[0].head)
    other.start()
    other.join()
    assert connections(postgres_server, "counted") == 2
    for storage in storages:
        storage.close()
        storage.close()
    with postgres_server.client() as client:  # refused as long as anybody is connected to it
        client.execute("DROP DATABASE counted")


def test_a_commit_of_many_updates_and_of_large_ones_is_applied_part_by_part(
    postgres_provider: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postgres_provider.sessions import Session

    parts = []
    start_timer = Session.start_timer
    monkeypatch.setattr(Session, "start_timer", lambda self: (parts.append(1), start_timer(self)))
    with closing(postgres_provider.open(new_namespace())) as storage:
        updates = {b"%d" % number: b"x" for number in range(5_000)} | {
            b"large-%d" % number: bytes(1_000_000) for number in range(50)
        }
        attempt = staged(storage, list(updates.items()))
        parts.clear()
        storage.commit(Fence(1, 0), 0, attempt)
        assert len(parts) > 5
        assert entries(storage) == updates
        committed(storage, [(key, None) for key in updates], txid=1, base=0)
        assert entries(storage) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [("port", 0), ("schema", "x; DROP"), ("schema", "X"), ("timeout_ms", 0), ("password_env", "NO_SUCH")],
)
def test_an_impossible_argument_is_named(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf, name: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=name) as refusal:
        postgres_provider_of(postgres_server, **{"password": None, name: value})
    assert refusal.value.key == f"topology.state.provider.config.{name}"
