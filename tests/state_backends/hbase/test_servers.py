"""HBase and its Thrift server killed, stopped, misconfigured, or something else altogether: real ones, and in time."""

import select
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TypeVar
from unittest import mock

import pytest

from anchorbolt.config.providers import TlsSettings
from anchorbolt.errors import AnchorboltError, ConfigError, StateError, StateUnavailable
from anchorbolt.state_backends.hbase import HBaseStateProvider
from anchorbolt.state_backends.hbase import storage as storage_module
from anchorbolt.testing.conformance.base import FIRST, Items, committed, entries, new_namespace, staged
from tests.conftest import StartHBase
from tests.servers.hbase_server import LOW_RETRY, MASTER, REGION_SERVER, THRIFT, HBaseProgram, HBaseServer
from tests.servers.server_process import free_port
from tests.servers.slow_servers import refusal_of, until_available
from tests.servers.tcp_proxy import TcpProxy
from tests.state_backends.fake_server import answering
from tests.state_backends.hbase.providers import CALLS, provider_of
from tests.support.certificates import Certificates

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TIMEOUT_MS = 1500
SLACK_SECONDS = 10.0  # of a machine that has much else to do; what hangs in HBase hangs for minutes
PATIENCE_SECONDS = 200.0
VALUES = {b"%d" % number: b"value of %d" % number for number in range(1000)}
_T = TypeVar("_T")


@pytest.fixture(scope="module")
def killable_server(hbase_program: HBaseProgram, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBaseServer]:
    settings = {**LOW_RETRY, "hbase.thrift.server.socket.read.timeout": 3000}
    server = HBaseServer(hbase_program, tmp_path_factory.mktemp("hbase"), settings=settings)
    yield server
    server.kill()


@pytest.fixture
def server(killable_server: HBaseServer) -> HBaseServer:
    """An HBase that may be killed; it serves when a test begins."""
    try:
        killable_server.start()
    except RuntimeError:  # what the test before left did not come up in time on a busy machine
        killable_server.kill()
        killable_server.start()
    with closing(provider_of(killable_server).open(new_namespace())) as storage:
        persist(storage.claim)
    return killable_server


@pytest.fixture
def impatient(server: HBaseServer) -> HBaseStateProvider:
    return provider_of(server, timeout_ms=TIMEOUT_MS)


def persist(call: Callable[[], _T]) -> _T:
    """Repeat a call until HBase, which takes its time to come back, can do it."""
    return until_available(call, PATIENCE_SECONDS)


def check_refusal(provider: HBaseStateProvider, kind: type[AnchorboltError], *said: str) -> None:
    """Check the error of the first call, which must come in time."""
    started = time.monotonic()
    with closing(provider.open(new_namespace())) as storage, pytest.raises(kind) as caught:
        storage.claim()
    assert time.monotonic() - started < provider.timeout_ms / 1000 + SLACK_SECONDS
    place = [] if kind is ConfigError else [f"{provider.host}:{provider.port}"]
    for words in (*place, *said):
        assert words in str(caught.value)


@contextmanager
def at_slice_applied(action: Callable[[], None]) -> Iterator[None]:
    """Do something once, when the first group of a commit is applied."""

    def first_time(*_: object, **__: object) -> None:
        if reach.call_count == 1:
            action()

    with mock.patch.object(storage_module, "reach", side_effect=first_time) as reach:
        yield
    assert reach.called, "no slice was applied"


def test_no_call_lasts_longer_than_its_timeout_whatever_is_stopped(
    server: HBaseServer, impatient: HBaseStateProvider
) -> None:
    for part in (THRIFT, MASTER):
        for name, call in CALLS.items():
            with closing(impatient.open(new_namespace())) as storage:
                persist(storage.head)
                server.pause(part)
                started = time.monotonic()
                try:
                    with pytest.raises(StateUnavailable, match=str(server.port)):
                        call(storage)
                    assert time.monotonic() - started < TIMEOUT_MS / 1000 + SLACK_SECONDS, name
                finally:
                    server.resume(part)
                persist(storage.head)


def test_a_connection_is_dropped_after_a_time_out_so_that_no_reply_answers_another_question(
    server: HBaseServer, impatient: HBaseStateProvider
) -> None:
    with closing(impatient.open(new_namespace())) as storage:
        attempt = persist(lambda: staged(storage, list(VALUES.items())))
        persist(lambda: storage.commit(FIRST, 0, attempt))
        for key in (b"1", b"2", b"3"):
            server.pause(THRIFT)
            with pytest.raises(StateUnavailable):
                storage.get_many([key])
            server.resume(THRIFT)
            for other in (b"4", b"5", b"6", key):
                assert persist(lambda other=other: storage.get_many([other])) == [VALUES[other]]


def test_a_connection_that_the_server_closed_because_it_was_idle_is_replaced_unseen(server: HBaseServer) -> None:
    with closing(provider_of(server).open(new_namespace())) as storage:
        committed(storage, [(b"a", b"1")])
        [connection] = vars(storage)["_table"]._client._idle
        closed, _, _ = select.select([connection.socket.sock], [], [], PATIENCE_SECONDS)
        assert closed, "the server has not closed the connection"
        assert storage.get_many([b"a"]) == [b"1"]


@pytest.mark.parametrize("part", [THRIFT, MASTER])
def test_a_commit_in_whose_middle_a_process_is_killed_is_finished_by_another_driver(
    server: HBaseServer, part: str
) -> None:
    provider = provider_of(server, timeout_ms=5_000)  # time enough for the commit to come as far as that
    namespace = new_namespace()
    items: Items = list(VALUES.items())
    with closing(provider.open(namespace)) as storage:
        attempt = persist(lambda: staged(storage, items[:500], items[500:]))
        with at_slice_applied(lambda: server.kill(part)), pytest.raises(StateUnavailable):
            storage.commit(FIRST, 0, attempt)
    server.start()
    with closing(provider.open(namespace)) as storage:
        fence = persist(storage.claim)
        persist(lambda: storage.raise_fence(fence))
        persist(lambda: storage.commit(fence, 0, attempt))
        assert persist(lambda: entries(storage)) == VALUES


@pytest.mark.thorough
def test_a_region_server_of_its_own_is_killed_in_the_middle_of_commits(start_hbase: StartHBase) -> None:
    server = start_hbase(distributed=True, settings={"hbase.client.retries.number": 12})

    def kill_and_restart() -> None:
        server.kill(REGION_SERVER)
        server.start_part(REGION_SERVER)

    with closing(provider_of(server).open(new_namespace())) as storage:
        for txid in range(2):
            items: Items = [(key, b"%d" % txid) for key in VALUES]
            attempt = persist(lambda t=txid, i=items: staged(storage, i[:500], i[500:], txid=t, base=t - 1))
            with at_slice_applied(kill_and_restart), suppress(StateUnavailable):
                storage.commit(FIRST, txid, attempt)
            persist(lambda t=txid, a=attempt: storage.commit(FIRST, t, a))
        assert persist(lambda: entries(storage)) == dict.fromkeys(VALUES, b"1")


def test_a_table_that_is_missing_is_named_or_made(server: HBaseServer) -> None:
    check_refusal(provider_of(server, table="nowhere", create_table=False), ConfigError, "create 'nowhere', 'state'")
    with closing(provider_of(server, table="made").open(new_namespace())) as storage:
        assert storage.claim() == FIRST
    with closing(provider_of(server, table="made", create_table=False).open(new_namespace())) as storage:
        committed(storage, [(b"a", b"1")])
        assert entries(storage) == {b"a": b"1"}


def test_a_column_family_that_is_missing_is_named_at_every_call(server: HBaseServer) -> None:
    provider = provider_of(server, column_family="nofamily")
    for call in CALLS.values():
        with closing(provider.open(new_namespace())) as storage, pytest.raises(ConfigError, match="nofamily"):
            call(storage)


def test_a_column_family_that_forgets_is_refused(server: HBaseServer) -> None:
    with closing(server.connection()) as connection:
        connection.create_table("forgetful", {"f": {"time_to_live": 1000}})
    check_refusal(provider_of(server, table="forgetful", column_family="f"), ConfigError, "FOREVER")


def test_a_disabled_table_is_named(server: HBaseServer) -> None:
    provider = provider_of(server, table="disabled", timeout_ms=TIMEOUT_MS)
    persist(lambda: provider.open(new_namespace()).claim())
    with closing(server.connection()) as connection, closing(provider.open(new_namespace())) as storage:
        connection.disable_table("disabled")
        for call in CALLS.values():
            assert "enable 'disabled'" in str(refusal_of(lambda call=call: call(storage)))
        connection.enable_table("disabled")
    with closing(provider.open(new_namespace())) as storage:
        persist(storage.claim)


def test_a_cell_over_the_servers_limit_is_refused_with_what_raises_it(server: HBaseServer) -> None:
    with closing(provider_of(server, largest_value=20 << 20).open(new_namespace())) as storage:
        attempt = staged(storage, [(b"k", b"v" * (12 << 20))])  # staged in parts
        with pytest.raises(StateError, match=r"hbase\.client\.keyvalue\.maxsize"):
            storage.commit(FIRST, 0, attempt)


@pytest.mark.thorough
def test_a_cell_over_the_region_servers_limit_is_refused_at_once_and_goes_in_when_it_is_raised(
    start_hbase: StartHBase,
) -> None:
    """The Thrift server lets it through; decided as it is, its commit waits for the setting."""
    server = start_hbase(settings={**LOW_RETRY, "hbase.server.keyvalue.maxsize": 1 << 20})
    value = b"v" * (3 << 20)
    with closing(provider_of(server).open(new_namespace())) as storage:
        attempt = staged(storage, [(b"k", value)])
        for _ in range(2):
            with pytest.raises(StateError, match=r"hbase\.server\.keyvalue\.maxsize") as error:
                storage.commit(FIRST, 0, attempt)
            assert not isinstance(error.value, StateUnavailable), "nobody waits for what does not pass"
        assert storage.get_many([b"k"]) == [None]
        server.stop()
        server.set("hbase.server.keyvalue.maxsize", 10 << 20)
        server.start()
        persist(lambda: storage.commit(FIRST, 0, attempt))
        assert persist(lambda: storage.get_many([b"k"])) == [value]


@pytest.mark.parametrize("host", ["127.0.0.1", "hbase.invalid"])
def test_a_server_that_does_not_run_or_a_host_that_does_not_exist_is_named_with_host_and_port(host: str) -> None:
    check_refusal(HBaseStateProvider("t", "f", host=host, port=free_port(), timeout_ms=200), StateUnavailable)


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 64, b"\xff" * 64])
@pytest.mark.parametrize("transport", ["buffered", "framed"])
@pytest.mark.parametrize("protocol", ["binary", "compact"])
def test_what_is_no_thrift_server_is_reported_as_such(reply: bytes, transport: str, protocol: str) -> None:
    with answering(reply) as port:
        provider = HBaseStateProvider(
            "t", "f", host="127.0.0.1", port=port, timeout_ms=300, transport=transport, protocol=protocol
        )
        check_refusal(provider, StateUnavailable, "transport")


@pytest.mark.parametrize(
    ("transport", "protocol"), [("framed", "binary"), ("buffered", "compact"), ("framed", "compact")]
)
def test_another_transport_or_protocol_than_the_servers_is_suspected(
    server: HBaseServer, transport: str, protocol: str
) -> None:
    provider = provider_of(server, transport=transport, protocol=protocol, timeout_ms=TIMEOUT_MS)
    check_refusal(provider, StateUnavailable, "transport", "protocol")


def test_a_connection_is_encrypted_and_verified(server: HBaseServer, certificates: Certificates) -> None:
    tls = TlsSettings(**certificates.of_client())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_certificate, certificates.server_key)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    with TcpProxy(server.port, tls=context) as proxy:
        port = proxy.port
        provider = provider_of(server, host="localhost", port=port, tls=tls)
        with closing(provider.open(new_namespace())) as storage:
            committed(storage, [(b"a", b"1")])
            assert entries(storage) == {b"a": b"1"}
        for stranger in (TlsSettings(), None):
            refused = provider_of(server, host="localhost", port=port, tls=stranger, timeout_ms=TIMEOUT_MS)
            check_refusal(refused, StateUnavailable)
        trusting = provider_of(server, host="127.0.0.1", port=port, tls=TlsSettings(verify=False))
        with closing(trusting.open(new_namespace())) as storage:
            assert storage.claim() == FIRST


def test_a_tls_file_that_cannot_be_used_is_named_before_connecting(certificates: Certificates) -> None:
    for tls in (TlsSettings(ca="/nowhere/ca.pem"), TlsSettings(ca=str(certificates.server_key))):
        with pytest.raises(ConfigError, match=r"ca\.pem|server\.key"):
            HBaseStateProvider("t", "f", tls=tls).open("a:b-0")
