"""PostgreSQL servers of all kinds: killed, frozen, locked, out of reach, read-only, or somebody else's."""

import itertools
import pickle
import traceback
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anchorbolt.config import Secret
from anchorbolt.errors import AnchorboltError, ConfigError, Fenced, StateCorrupted, StateUnavailable
from anchorbolt.state_backends.contract import Fence, Seal, StagedSlice, StateProvider, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing.conformance.base import CODEC, FIRST, committed, entries, new_namespace, stage
from tests.conftest import StartPostgres
from tests.examples.conftest import PostgresProviderOf
from tests.servers.postgres_server import PostgresServer
from tests.servers.server_process import free_port
from tests.servers.slow_servers import until_available

NS = "words:count-0"
ATTEMPT, OTHER = "a" * 32, "b" * 32
UPDATES = {b"a": b"2", b"b": None, b"c": b"2"}
SLICE = StagedSlice(FIRST, 1, ATTEMPT, 0, 0, UPDATES, CODEC)

# Every step that writes, on a namespace as `prepared` leaves it.
STEPS: dict[str, Callable[[StateStorage], Any]] = {
    "claim": lambda storage: storage.claim(),
    "raise_fence": lambda storage: storage.raise_fence(Fence(1, 1)),
    "stage": lambda storage: storage.stage(StagedSlice(Fence(1, 1), 1, OTHER, 0, 0, UPDATES, CODEC)),
    "seal": lambda storage: storage.seal(FIRST, ATTEMPT, Seal(1, SLICE.checksum_after(0))),
    "commit": lambda storage: storage.commit(FIRST, 1, ATTEMPT),
    "rollback": lambda storage: storage.rollback(FIRST),
    "write": lambda storage: storage.write(FIRST, {b"a": b"3"}, CODEC),
}


def prepared(provider: StateProvider, namespace: str, step: str) -> StateStorage:
    """Return a namespace at txid 0 with an attempt for txid 1, sealed unless the step is to seal it."""
    storage = provider.open(namespace)
    stage(storage, [(b"a", b"1"), (b"b", b"1")], attempt="c" * 32)
    storage.seal(FIRST, "c" * 32, storage.stage(StagedSlice(FIRST, 0, "c" * 32, -1, 1, {}, CODEC)))
    storage.commit(FIRST, 0, "c" * 32)
    _, seal = stage(storage, list(UPDATES.items()), txid=1, base=0, attempt=ATTEMPT)
    if step != "seal":
        storage.seal(FIRST, ATTEMPT, seal)
    return storage


def contents(storage: StateStorage) -> Any:
    return storage.head(), entries(storage), entries(storage, ATTEMPT), entries(storage, OTHER)


def expected(step: str, times: int) -> Any:
    """Return what the reference holds after a step was taken so many times."""
    storage = prepared(MemoryStateProvider(), NS, step)
    for _ in range(times):
        STEPS[step](storage)
    return contents(storage)


def harmed(server: PostgresServer, number: int, statements: list[str], *, answer_lost: bool) -> Callable[..., Any]:
    """Stand in for `Session.run`: kill the server before the n-th statement, or lose the answer to it."""
    from postgres_provider.sessions import Session

    run = Session.run

    def run_or_kill(session: Any, statement: str, **parameters: Any) -> Any:
        statements.append(statement)
        if len(statements) != number + 1:
            return run(session, statement, **parameters)
        if answer_lost:
            run(session, statement, **parameters)
            server.kill()
            raise psycopg.OperationalError("the answer was lost")
        server.kill()
        return run(session, statement, **parameters)

    return run_or_kill


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("answer_lost", [False, True], ids=["killed before", "answer lost"])
def test_a_server_killed_at_any_statement_of_a_step_leaves_it_taken_or_not_and_it_can_be_repeated(
    start_postgres: StartPostgres,
    postgres_provider_of: PostgresProviderOf,
    monkeypatch: pytest.MonkeyPatch,
    answer_lost: bool,
) -> None:
    server = start_postgres()
    provider = postgres_provider_of(server)
    killed = 0
    for step, take in STEPS.items():
        for number in itertools.count():
            statements: list[str] = []
            with closing(prepared(provider, f"words:{step}-{number}", step)) as storage:
                with monkeypatch.context() as patch, suppress(StateUnavailable):
                    run = harmed(server, number, statements, answer_lost=answer_lost)
                    patch.setattr("postgres_provider.sessions.Session.run", run)
                    take(storage)
                    assert len(statements) <= number, "a step that was disturbed has not failed"
                    break
                server.start()
                killed += 1
                applied = answer_lost and statements[number] == "COMMIT"
                assert contents(storage) == expected(step, times=1 if applied else 0), (step, statements)
                take(storage)
                assert contents(storage) == expected(step, times=2 if applied else 1), (step, statements)
    assert killed > 4 * len(STEPS)


def test_a_connection_that_died_between_two_steps_is_not_noticed(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    with closing(postgres_provider_of(postgres_server).open(new_namespace())) as storage:
        committed(storage, [(b"a", b"1")])
        with postgres_server.client() as client:
            client.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'anchorbolt'"
            )
        committed(storage, [(b"a", b"2")], txid=1, base=0)
        assert entries(storage) == {b"a": b"2"}


def test_a_server_that_stands_still_is_given_up_within_the_time_and_used_again_afterwards(
    start_postgres: StartPostgres, postgres_provider_of: PostgresProviderOf
) -> None:
    server = start_postgres()
    with closing(postgres_provider_of(server).open(NS)) as patient:
        committed(patient, [(b"a", b"1")])
    with closing(postgres_provider_of(server, timeout_ms=300).open(NS)) as storage:
        until_available(storage.head)
        server.freeze()
        with pytest.raises(StateUnavailable):
            storage.get_many([b"a"])
        server.thaw()
        assert until_available(lambda: storage.get_many([b"a"])) == [b"1"]


def test_a_lock_that_somebody_holds_is_waited_for_within_the_time(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    namespace = new_namespace()
    with (
        closing(postgres_provider_of(postgres_server).open(namespace)) as storage,
        closing(postgres_provider_of(postgres_server, timeout_ms=1_000).open(namespace)) as impatient,
        postgres_server.client() as client,
    ):
        storage.claim()
        with client.transaction():
            client.execute("SELECT FROM anchorbolt.namespaces WHERE namespace = %s FOR UPDATE", (namespace,))
            with pytest.raises(StateUnavailable, match="1000 ms"):
                impatient.claim()
            assert storage.head().fence == Fence(1, 0), "reading waits for nobody"
        assert storage.claim() == Fence(2, 0)


def test_a_client_that_stands_still_within_a_step_loses_its_lock_and_its_step(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    namespace = new_namespace()
    still = postgres_provider_of(postgres_server, timeout_ms=1_000).open(namespace)
    with closing(still), closing(postgres_provider_of(postgres_server).open(namespace)) as other:
        assert other.claim() == Fence(1, 0)
        step = still._locked()
        step.__enter__().raise_fence(Fence(9, 9))
        assert other.claim() == Fence(2, 0)
        with pytest.raises(StateUnavailable):
            step.__exit__(None, None, None)
        assert other.head().fence == Fence(2, 0)


def test_a_refusal_stands_where_the_server_dies_of_it(
    start_postgres: StartPostgres, postgres_provider_of: PostgresProviderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    from postgres_provider.sessions import Session

    server = start_postgres()
    run = Session.run

    def killed_at_rollback(session: Any, statement: str, **parameters: Any) -> Any:
        if statement == "ROLLBACK":
            server.kill()
        return run(session, statement, **parameters)

    with closing(postgres_provider_of(server).open(NS)) as storage:
        storage.raise_fence(Fence(5, 0))
        monkeypatch.setattr(Session, "run", killed_at_rollback)
        with pytest.raises(Fenced):
            storage.raise_fence(Fence(4, 0))
        server.start()
        assert storage.head().fence == Fence(5, 0)


def test_a_commit_is_durable_also_where_the_role_would_not_have_it_so(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    with postgres_server.client() as client:
        client.execute("CREATE ROLE hasty SUPERUSER LOGIN PASSWORD 'pw'")
        client.execute("ALTER ROLE hasty SET synchronous_commit = off")
    provider = postgres_provider_of(postgres_server, user="hasty", password=Secret("pw"))
    from postgres_provider.sessions import sessions_of

    sessions = sessions_of(provider._server)
    with sessions.reading(None) as session:
        assert session is not None
        assert session.run("SHOW synchronous_commit").fetchall() == [("on",)]
    sessions.release()


def refusal(provider: Any) -> AnchorboltError:
    """Return the error of the first call, after looking for the password in everything that might be printed."""
    with closing(provider.open(NS)) as storage, pytest.raises(AnchorboltError) as caught:
        storage.claim()
    error = caught.value
    printed = "".join(traceback.format_exception(error)) + repr(error) + repr(pickle.dumps(error)) + repr(provider)
    assert "staple" not in printed
    assert f"{provider.host}:{provider.port}" in str(error)
    return error


def test_a_wrong_password_a_missing_one_and_a_wrong_database_are_configuration_errors(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSFILE", "/nowhere")
    for name, value, advice in (
        *(("password", password, "user and password") for password in (Secret("staple"), None)),
        ("database", "nowhere", "create it"),
    ):
        error = refusal(postgres_provider_of(postgres_server, **{name: value}))
        assert isinstance(error, ConfigError)
        assert advice in str(error)


def test_the_password_may_come_from_the_environment_or_from_a_password_file(
    postgres_server: PostgresServer,
    postgres_provider_of: PostgresProviderOf,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("STATE_PASSWORD", postgres_server.password)
    named = postgres_provider_of(postgres_server, password=None, password_env="STATE_PASSWORD")
    monkeypatch.delenv("STATE_PASSWORD")
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:{postgres_server.user}:{postgres_server.password}\n")
    passfile.chmod(0o600)
    from_file = postgres_provider_of(postgres_server, password=None)
    for provider in (pickle.loads(pickle.dumps(named)), from_file):  # noqa: S301 (our own bytes)
        assert postgres_server.password not in repr(provider)
        with closing(provider.open(new_namespace())) as storage:
            assert storage.claim() == Fence(1, 0)
        monkeypatch.setenv("PGPASSFILE", str(passfile))


def test_a_server_that_is_away_is_named_with_host_and_port(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    for place in ({"port": free_port()}, {"host": "postgres.invalid"}):
        error = refusal(postgres_provider_of(postgres_server, timeout_ms=500, **place))
        assert isinstance(error, StateUnavailable)
        assert error.namespace == NS
        assert isinstance(error.__cause__, psycopg.OperationalError)


def test_a_user_needs_the_rights_that_the_error_names_and_no_others(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    with closing(postgres_provider_of(postgres_server, schema="granted").open(NS)) as storage:
        storage.claim()
    provider = postgres_provider_of(postgres_server, schema="granted", user="worker", password=Secret("pw"))
    with postgres_server.client() as client:
        client.execute("CREATE ROLE worker LOGIN PASSWORD 'pw'")
        error = refusal(provider)
        assert isinstance(error, ConfigError)
        assert "'worker'" in str(error)
        client.execute("GRANT USAGE ON SCHEMA granted TO worker")
        client.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA granted TO worker")
    with closing(provider.open("words:count-1")) as storage:
        storage.raise_fence(storage.claim())
        storage.write(FIRST, {b"w": b"1"}, CODEC)
        stage(storage, [(b"loser", b"1")])
        assert storage.rollback(FIRST) == 1
        committed(storage, [(b"a", b"1"), (b"b", b"1")])
        committed(storage, [(b"a", None)], txid=1, base=0)
        assert entries(storage) == {b"b": b"1", b"w": b"1"}
    assert sorted(provider.namespaces("words:")) == [NS, "words:count-1"]


def test_tables_of_somebody_else_are_refused_and_left_alone(
    postgres_server: PostgresServer, postgres_provider_of: PostgresProviderOf
) -> None:
    with postgres_server.client() as client:
        client.execute("CREATE SCHEMA foreign_one")
        client.execute("CREATE TABLE foreign_one.namespaces (id int, name text)")
        error = refusal(postgres_provider_of(postgres_server, schema="foreign_one"))
        assert isinstance(error, StateCorrupted)
        assert "foreign_one" in str(error)
        tables = client.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'foreign_one'").fetchall()
        assert tables == [("namespaces",)]


def test_a_standby_is_read_and_not_written_to(
    start_postgres: StartPostgres, postgres_provider_of: PostgresProviderOf
) -> None:
    server = start_postgres()
    with closing(postgres_provider_of(server).open(NS)) as storage:
        committed(storage, [(b"a", b"1")])
        server.become_standby()
        assert entries(storage) == {b"a": b"1"}
        with pytest.raises(StateUnavailable):
            storage.claim()
