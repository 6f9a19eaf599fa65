"""Serves an ASGI app: uvicorn on a daemon thread of the driver, with an event loop of its own."""

from __future__ import annotations

import asyncio
import atexit
import ipaddress
import logging
import socket
import threading
from typing import NamedTuple

import uvicorn
import uvloop
from starlette.types import ASGIApp

from anchorbolt.errors import ConfigError
from anchorbolt.observe.web.connection import Connection

_log = logging.getLogger("anchorbolt.ui")

_ACCEPTED_AT_ONCE = 50
_WAITING_TO_BE_ACCEPTED = 1024
_END_S = 5.0


class Place(NamedTuple):
    """An address of this machine, on which a server may listen."""

    family: socket.AddressFamily
    address: tuple[object, ...]

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(str(self.address[0]).partition("%")[0]).is_loopback


def place_of(host: str, port: int) -> Place:
    """Return the address of a host and a port. Raises `OSError` if the host is unknown."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return Place(family, address)


class HttpServer:
    """Serves an app from its start, until it is closed or Python ends."""

    def __init__(self, place: Place, kind: str) -> None:
        """Listen. `kind` is "ui" or "metrics", as in `topology.ui.port`.

        Raises:
            ConfigError: The port cannot be used.
        """
        self._kind = kind
        try:
            self._socket = _listening(place)
        except OSError as error:
            raise ConfigError(
                f"port {place.address[1]} of {place.address[0]} cannot be used: {error.strerror}. Set "
                f"topology.{kind}.port, or --{kind}-port, to a port that is free.",
                key=f"topology.{kind}.port",
            ) from error

    @property
    def address(self) -> str:
        """The address, as `http://127.0.0.1:8080/`."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def start(self, app: ASGIApp) -> None:
        """Serve an app."""
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=5,
            backlog=_ACCEPTED_AT_ONCE,  # the event loop accepts this many before it serves one
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name=f"anchorbolt-{self._kind}", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # Python may crash (SIGSEGV) if it ends while uvloop runs

    def close(self) -> None:
        """Stop listening. May be called more than once, but not by the server's own thread."""
        self._server.should_exit = True
        self._thread.join(_END_S)
        self._socket.close()
        atexit.unregister(self.close)

    def _run(self) -> None:
        try:
            uvloop.run(self._serve())
        except Exception:  # a page must not end a run
            _log.warning("%s is not served any more", self._kind, exc_info=True)

    async def _serve(self) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        if not self._server.should_exit:  # else uvicorn may have closed the socket
            self._socket.listen(_WAITING_TO_BE_ACCEPTED)  # other clients try again after a second
        await serving


def _listening(place: Place) -> socket.socket:
    # With the protocol, the event loop sends at once. Without it, an answer may wait 40 ms for an ACK.
    listening = socket.socket(place.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place.address)
        listening.listen()
    except OSError:
        listening.close()
        raise
    return listening
