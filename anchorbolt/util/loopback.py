"""The names of the loopback address in a request's `Host`. Other names come from a web page by DNS rebinding."""

from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def name_of(host: str) -> str:
    """Return the name or address in a `Host` header, in lower case and without a port; empty if it is malformed."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
