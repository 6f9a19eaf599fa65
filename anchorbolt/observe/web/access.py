"""Access rules: the token, the sessions of browsers that have sent it, and the hosts that requests may name. Pure.

Without a token the server listens on the loopback address only. Then a page of another site must not read it by DNS
rebinding, so requests must name a loopback host. A form of another site must not act, so a POST must come from the
page's own origin. With a token on another host, a request without the token learns nothing, whatever host it names.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from anchorbolt.config.secret import Secret

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def name_of(host: str) -> str:
    """Return the name or address in a `Host` header, in lower case and without a port; empty if it is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


COOKIE = "anchorbolt_ui"
SESSION_S = 12 * 3600

_MOST_SESSIONS = 100


class Access:
    """The rules of one server. Not thread-safe: for the server's event loop."""

    def __init__(
        self, *, host: str, is_loopback: bool, token: Secret | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._is_loopback = is_loopback
        self._names = {*LOOPBACK_NAMES, host.lower()}
        self._digest = None if token is None else _digest(token.reveal())
        self._clock = clock
        self._ends: dict[str, float] = {}  # by session

    @property
    def reading_needs_token(self) -> bool:
        return not self._is_loopback

    def allows_host(self, host: str) -> bool:
        """Return whether a request may have this `Host` header."""
        return not self._is_loopback or name_of(host) in self._names

    def allows_origin(self, host: str, origin: str | None, fetch_site: str | None) -> bool:
        """Return whether a POST may come from this `Origin`, with this `Sec-Fetch-Site`; None if there is no header."""
        if fetch_site not in (None, "same-origin", "none"):
            return False
        return origin is None or urlsplit(origin).netloc.lower() == host.lower()

    def is_token(self, given: str) -> bool:
        """Return whether this is the token, by a constant-time comparison."""
        return self._digest is not None and hmac.compare_digest(_digest(given), self._digest)

    def has_token(self, authorization: str | None, cookies: str | None) -> bool:
        """Return whether these headers have the token, or the cookie of a current session."""
        scheme, _, given = (authorization or "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        try:
            morsel = SimpleCookie(cookies or "").get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and self._ends.get(morsel.value, 0) > self._clock()

    def new_session(self) -> str:
        """Return the id of a new session. It ends after 12 hours, or once 100 newer sessions exist."""
        now = self._clock()
        self._ends = {session: end for session, end in self._ends.items() if end > now}
        while len(self._ends) >= _MOST_SESSIONS:
            del self._ends[next(iter(self._ends))]
        session = secrets.token_urlsafe(32)
        self._ends[session] = now + SESSION_S
        return session


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
