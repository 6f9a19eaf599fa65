"""Where the state of a demo run lives: one context manager per provider, which yields the job's configuration of it."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import redis

from crash_demo.job_process import DemoError

__all__ = ["Provider", "provided"]

_HOST = "127.0.0.1"
_READY_S = 30.0
_LOOK_S = 0.02


class Provider(str, Enum):
    """The state providers that the demo knows."""

    SQLITE = "sqlite"
    REDIS = "redis"


def provided(provider: Provider, work: Path) -> AbstractContextManager[Mapping[str, Any]]:
    """Start what a provider needs, for as long as the context lasts; the context is the job's configuration of it.

    Raises:
        DemoError: On entering, where it cannot be started.
    """
    return _STARTERS[provider](work)


@contextmanager
def _sqlite(work: Path) -> Iterator[Mapping[str, Any]]:
    yield {
        "topology.state.provider": "sqlite",
        "topology.state.provider.config": {"directory": str(work / "state")},
    }


@contextmanager
def _redis(work: Path) -> Iterator[Mapping[str, Any]]:
    """A server of the demo's own, whose password stands in files that only their owner can read."""
    program = shutil.which("redis-server")
    if program is None:
        raise DemoError(
            "there is no redis-server on the PATH. `make demo PROVIDER=redis` finds or installs one."
        )
    folder = work / "redis"
    folder.mkdir()
    password = secrets.token_urlsafe()
    password_file = _private_file(folder / "password", password + "\n")
    port = _free_port()
    configuration = _private_file(
        folder / "redis.conf",
        f'bind {_HOST}\nport {port}\nrequirepass "{password}"\ndir "{folder}"\nappendonly yes\nsave ""\n',
    )
    log = folder / "redis.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            [program, str(configuration)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
        )
    try:
        _wait_until_ready(server, port, password, log)
        yield {
            "topology.state.provider": "redis",
            "topology.state.provider.config": {
                "jedisPoolConfig": {"host": _HOST, "port": port, "passwordFile": str(password_file)}
            },
        }
    finally:
        server.terminate()
        try:
            server.wait(_READY_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


_STARTERS: Mapping[Provider, Callable[[Path], AbstractContextManager[Mapping[str, Any]]]] = {
    Provider.SQLITE: _sqlite,
    Provider.REDIS: _redis,
}


def _wait_until_ready(server: subprocess.Popen[bytes], port: int, password: str, log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    with redis.Redis(host=_HOST, port=port, password=password, socket_timeout=5) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                # Another server may have been faster to take the port.
                if client.info("server")["process_id"] == server.pid:
                    return
            except redis.RedisError:
                pass
            time.sleep(_LOOK_S)
    raise DemoError(f"redis-server did not start; its log says:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind((_HOST, 0))
        port: int = listener.getsockname()[1]
        return port


def _private_file(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path
