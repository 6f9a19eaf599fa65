"""The ASGI layer around the app: refuses bad requests before any route, and adds security headers to responses."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, to_builtins
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from anchorbolt.observe.web.access import Access
from anchorbolt.observe.web.connection import MOST_HEADER_BYTES

MOST_BODY_BYTES = 4096

_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),  # with no-referrer, the login form is sent with "Origin: null" and refused
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_OPEN_PATHS = ("/healthz", "/readyz", "/login", "/static/style.css", "/static/icon.svg")


class Guard:
    """Checks `Host`, `Origin`, the size of the body and, where reading needs it, the token."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = message["headers"]
                sent += _HEADERS
                if not any(name == b"cache-control" for name, _ in sent):
                    sent.append((b"cache-control", b"no-store"))
            await send(message)

        scope["has_token"] = self._access.has_token(headers.get("authorization"), headers.get("cookie"))
        refusal = self._refusal(scope, headers)
        body = b"" if refusal is not None or scope["method"] != "POST" else await _body(receive)
        if body is None:
            refusal = refused(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
        if refusal is not None:
            refusal.headers["Connection"] = "close"  # nothing after this body is read as another request
            await refusal(scope, receive, send_with_headers)
            return
        whole = _as_messages(body or b"")

        async def receive_body() -> Message:
            return next(whole, None) or await receive()

        await self._app(scope, receive_body, send_with_headers)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        # `Connection` does not limit headers that arrive in one piece.
        if sum(len(name) + len(value) for name, value in headers.raw) + len(scope["raw_path"]) > MOST_HEADER_BYTES:
            return refused(431, f"the headers are longer than {MOST_HEADER_BYTES} bytes")
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if len(hosts) != 1 or not self._access.allows_host(host):
            return refused(421, "this server does not answer for that host. Use its own address, or localhost")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return refused(405, "only GET, HEAD and POST are served")
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may see another end of such a request, and pass on a second request after it.
            return refused(400, "the request has both a length and a transfer encoding")
        length = headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 9 or int(length) > MOST_BODY_BYTES:
            return refused(413, f"the body is longer than {MOST_BODY_BYTES} bytes")
        if scope["method"] == "POST" and not self._access.allows_origin(
            host, headers.get("origin"), headers.get("sec-fetch-site")
        ):
            return refused(403, "the request comes from a page of another origin")
        if self._access.reading_needs_token and not scope["has_token"] and scope["path"] not in _OPEN_PATHS:
            if scope["path"] == "/":
                return RedirectResponse("/login", status_code=303)
            return refused(401, "send the token as 'Authorization: Bearer TOKEN'")
        return None


class Refused(Struct, frozen=True, rename="camel"):
    """A request is refused, in the form of Storm's REST API."""

    error: str  # the status
    error_message: str


async def http_error(request: Request, error: HTTPException) -> Response:
    """Refuse a request after the app raised an error."""
    return refused(error.status_code, error.detail)


def refused(status: int, reason: str) -> Response:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse(to_builtins(Refused(f"{status}", reason)), status, headers)


async def _body(receive: Receive) -> bytes | None:
    """Return the body of a request, or None if it is too long."""
    body: bytes = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return body
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return body


def _as_messages(body: bytes) -> Iterator[Message]:
    yield {"type": "http.request", "body": body, "more_body": False}
