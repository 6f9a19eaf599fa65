"""Clients shared by all namespaces of a process: one for each address, while it has users."""

import os
import threading
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from anchorbolt.config.providers import PROVIDER_CONFIG, TlsSettings
from anchorbolt.errors import ConfigError

_Address = TypeVar("_Address")
_Client = TypeVar("_Client", bound="SharedClient[Any]")


class SharedClient(ABC, Generic[_Address]):
    """This process's client for one address. Get it with `acquire`; `release` it. A fork starts with none."""

    def __init__(self, address: _Address) -> None:
        self.address = address  # hashable; each kind of client has its own class of addresses
        self._users = 0

    @classmethod
    def acquire(cls: type[_Client], address: Any) -> _Client:
        """Return this process's client for `address`. Connects to nothing yet.

        Raises `ConfigError` if a TLS file cannot be used.
        """
        with _lock:
            client: _Client | None = _clients.get(address)
            if client is None:
                client = _clients[address] = cls(address)
            client._users += 1
            return client

    def release(self) -> None:
        """Close the connections, unless they have another user."""
        with _lock:
            self._users -= 1
            if self._users > 0:
                return
            if _clients.get(self.address) is self:
                del _clients[self.address]
        self._close()

    @abstractmethod
    def _close(self) -> None:
        """Close all connections."""


def check_tls_files(tls: TlsSettings | None) -> None:
    """Raise `ConfigError` if a TLS file cannot be read."""
    for path in (tls.ca, tls.cert, tls.key) if tls else ():
        if path is not None and not os.access(path, os.R_OK):
            raise ConfigError(
                f"the TLS file {path} cannot be read: check the path and its permissions", key=PROVIDER_CONFIG
            )


_lock = threading.Lock()
_clients: dict[Any, Any] = {}


def _forget_after_fork() -> None:
    # The lock may be held by a thread that does not exist here.
    global _lock
    _lock = threading.Lock()
    _clients.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
