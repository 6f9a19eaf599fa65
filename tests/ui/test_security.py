"""Who may read and act, and what a hostile client cannot do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from anchorbolt.config import Secret, load_conf
from anchorbolt.engine import RunHandle
from anchorbolt.errors import ConfigError
from anchorbolt.observe.web import connection as connections
from anchorbolt.ui import UiServer
from tests.ui.conftest import TOKEN, Client

SUMMARY = "/api/v1/topology/summary"
STOP = "/api/v1/topology/words/stop"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def serve() -> Iterator[Callable[..., UiServer]]:
    made: list[UiServer] = []

    def serve(**more: object) -> UiServer:
        made.append(UiServer("words", port=0, **more))  # type: ignore[arg-type]
        return made[-1]

    yield serve
    for each in made:
        each.close()


@pytest.fixture
def guarded(serve: Callable[..., UiServer]) -> Client:
    """A server that other machines can reach."""
    server = serve(host="0.0.0.0", token=Secret(TOKEN))
    return Client(server.address.replace("0.0.0.0", "127.0.0.1"))


def test_a_port_in_use_is_refused(server: UiServer) -> None:
    with pytest.raises(ConfigError) as refused:
        UiServer("words", port=Client(server.address).port)
    assert refused.value.key == "topology.ui.port"


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"topology.ui.host": "0.0.0.0"}, "topology.ui.host"),
        ({"topology.ui.host": "no-such-host.invalid"}, "topology.ui.host"),
        ({"topology.ui.actions": True}, "topology.ui.actions"),
        ({"topology.ui.tokenEnv": "SHORT"}, "topology.ui.tokenEnv"),
        ({"topology.ui.tokenEnv": "UNSET"}, "topology.ui.tokenEnv"),
    ],
)
def test_a_host_without_a_token_and_a_short_token_are_refused(
    given: dict[str, object], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHORT", "secret-short")
    settings = load_conf({"topology.ui.port": 0, **given}).settings
    with pytest.raises(ConfigError) as refused:
        UiServer.from_settings("words", settings)
    assert refused.value.key == key
    assert "secret-short" not in str(refused.value)


def test_the_token_cannot_be_given_on_a_command_line() -> None:
    with pytest.raises(ConfigError) as refused:
        load_conf(overrides=["topology.ui.token=in-every-list-of-processes"])
    assert "in-every-list" not in str(refused.value)


@pytest.mark.parametrize("path", [SUMMARY, "/metrics", "/api/v1/openapi.json", "/static/main.js", STOP])
def test_without_the_token_another_machine_reads_nothing(guarded: Client, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": "anchorbolt_ui=wrong"}):
        status, _, body = guarded.ask(path, headers=headers)
        assert status == 401
        assert b"words" not in body
    assert guarded.ask(path, headers=BEARER)[0] != 401


def test_a_probe_needs_no_token_and_learns_no_reason(guarded: Client) -> None:
    assert guarded.ask("/healthz")[0] == 200
    status, _, body = guarded.ask("/readyz")
    assert (status, body) == (503, b'{"ready":false}')
    assert b"reason" in guarded.ask("/readyz", headers=BEARER)[2]


def test_a_browser_gets_a_cookie_for_the_token_and_not_for_another_one(guarded: Client) -> None:
    status, headers, _ = guarded.ask("/")
    assert (status, headers["location"]) == (303, "/login")
    assert guarded.ask("/login")[0] == 200
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    status, headers, _ = guarded.ask("/login", "POST", form, "token=wrong")
    assert status == 401
    assert "set-cookie" not in headers
    status, headers, _ = guarded.ask("/login", "POST", form, f"token={TOKEN}")
    assert status == 303
    cookie = headers["set-cookie"]
    assert TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert guarded.ask(SUMMARY, headers={"Cookie": cookie.partition(";")[0]})[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "localhost.evil.example", "[::1", ""])
def test_a_page_of_another_site_cannot_read_by_dns_rebinding(client: Client, host: str) -> None:
    assert client.ask(SUMMARY, headers={"Host": host})[0] == 421


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:1", "[::1]:8080"])
def test_loopback_has_its_names_whatever_port_leads_to_it(client: Client, host: str) -> None:
    assert client.ask(SUMMARY, headers={"Host": host})[0] == 200


def test_only_the_page_itself_may_act_and_only_with_the_token(serve: Callable[..., UiServer], ended: RunHandle) -> None:
    stopped = threading.Event()
    server = serve(token=Secret(TOKEN), actions=True)
    server.show(ended, stop=stopped.set)
    client = Client(server.address)
    own = server.address.rstrip("/")
    assert client.ask(STOP, "POST")[0] == 401
    assert client.ask(STOP, "GET", BEARER)[0] == 405
    assert client.ask(STOP, "POST", {**BEARER, "Origin": "https://evil.example"})[0] == 403
    assert client.ask(STOP, "POST", {**BEARER, "Origin": "null"})[0] == 403
    assert client.ask(STOP, "POST", {**BEARER, "Sec-Fetch-Site": "cross-site"})[0] == 403
    assert not stopped.is_set()
    assert client.ask(STOP, "POST", {**BEARER, "Origin": own, "Sec-Fetch-Site": "same-origin"})[0] == 200
    assert stopped.is_set()


def test_without_actions_nobody_stops_a_run(serve: Callable[..., UiServer], ended: RunHandle) -> None:
    server = serve(token=Secret(TOKEN))
    server.show(ended)
    client = Client(server.address)
    assert client.ask(STOP, "POST", BEARER)[0] == 403
    assert client.json("/api/v1/topology/words/now")["canAct"] is False


@pytest.mark.parametrize(
    "path",
    [
        *("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static/..%5cserver.py"),
        *(
            "/static//etc/passwd",
            "/static/%00",
            "/static/",
            "/../../etc/passwd",
            "//etc/passwd",
            "/static/login.html%00",
        ),
    ],
)
def test_no_path_leads_out_of_the_pages_files(client: Client, path: str) -> None:
    status, _, body = client.ask(path)
    assert status == 404
    assert b"root:" not in body


def test_the_page_loads_nothing_from_elsewhere(client: Client) -> None:
    status, headers, body = client.ask("/")
    assert status == 200
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert b"http" not in body.replace(b"http-equiv", b"")
    assert client.ask("/static/main.js")[1]["content-type"].startswith("text/javascript")


def test_a_long_body_is_refused_whether_its_length_is_told_or_not(client: Client) -> None:
    assert client.ask("/login", "POST", body="x" * 5000)[0] == 413
    assert client.ask("/login", "POST", {"Content-Length": "99999999999999"})[0] == 413
    chunks = "3e8\r\n" + "x" * 1000 + "\r\n"
    assert client.ask("/login", "POST", {"Transfer-Encoding": "chunked"}, chunks * 5 + "0\r\n\r\n")[0] == 413


def test_a_long_header_is_refused(client: Client) -> None:
    assert client.ask(SUMMARY, headers={"X-Long": "x" * 70_000})[0] in (400, 431)
    assert client.ask(SUMMARY)[0] == 200


def test_a_client_that_does_not_finish_its_request_is_cut_off(
    serve: Callable[..., UiServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "TIMEOUT_S", 0.1)
    client = Client(serve().address)
    with socket.create_connection((client.host, client.port), timeout=30) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        with suppress(ConnectionResetError):
            assert slow.recv(1) == b""
