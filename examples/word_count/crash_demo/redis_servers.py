"""The demo's own Redis servers: one, or a cluster of six. Only their owner can read the files with their password."""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from crash_demo.job_process import DemoError

__all__ = ["redis_cluster", "redis_server"]

_HOST = "127.0.0.1"
_READY_S = 30.0
_LOOK_S = 0.02
_SERVERS = 6
_LOWEST_PORT, _PORTS = 12_000, 10_000
"""A cluster's server also listens on its port + 10,000; Linux uses ports from 32,768 on for connections."""
_ATTEMPTS = 5
_IN_USE = "Address already in use"


@contextmanager
def redis_server(work: Path) -> Iterator[Mapping[str, Any]]:
    """One server."""
    folder = work / "redis"
    folder.mkdir()
    password, password_file = _password(folder)
    with _server(folder, password) as port:
        yield {
            "topology.state.provider": "redis",
            "topology.state.provider.config": {
                "jedisPoolConfig": {"host": _HOST, "port": port, "passwordFile": str(password_file)}
            },
        }


@contextmanager
def redis_cluster(work: Path) -> Iterator[Mapping[str, Any]]:
    """Three masters, each with a replica."""
    folder = work / "redis-cluster"
    folder.mkdir()
    password, password_file = _password(folder)
    with ExitStack() as servers:
        nodes = []
        for number in range(_SERVERS):
            options = ["cluster-enabled yes", f'masterauth "{password}"']
            port = servers.enter_context(_server(folder / str(number), password, options))
            nodes.append(f"{_HOST}:{port}")
        _join(nodes, password)
        yield {
            "topology.state.provider": "redis-cluster",
            "topology.state.provider.config": {
                "jedisClusterConfig": {"nodes": nodes, "passwordFile": str(password_file)}
            },
        }


@contextmanager
def _server(folder: Path, password: str, options: Sequence[str] = ()) -> Iterator[int]:
    server, port = _start(folder, password, options)
    try:
        yield port
    finally:
        server.terminate()
        try:
            server.wait(_READY_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _start(folder: Path, password: str, options: Sequence[str]) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server on a free port and wait until it answers. If the port is taken meanwhile, try another one."""
    program = _program("redis-server")
    folder.mkdir(exist_ok=True)
    log = folder / "redis.log"
    for _ in range(_ATTEMPTS):
        port = _free_port()
        lines = [f"bind {_HOST}", f"port {port}", f'requirepass "{password}"', f'dir "{folder}"']
        configuration = _private_file(
            folder / "redis.conf", "\n".join([*lines, "appendonly yes", 'save ""', *options]) + "\n"
        )
        with log.open("wb") as stream:
            server = subprocess.Popen(
                [program, str(configuration)], stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        is_ready = False
        try:
            is_ready = _is_ready(server, port, password)
        finally:
            if not is_ready:
                server.kill()
                server.wait()
        if is_ready:
            return server, port
        said = log.read_text(errors="replace")
        if _IN_USE not in said:
            break
    raise DemoError(f"redis-server did not start; its log says:\n{said[-2000:]}")


def _join(nodes: Sequence[str], password: str) -> None:
    command = [_program("redis-cli"), "--cluster", "create", *nodes]
    made = subprocess.run(
        [*command, "--cluster-replicas", "1", "--cluster-yes"],
        env={**os.environ, "REDISCLI_AUTH": password},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=4 * _READY_S,
    )
    if made.returncode:
        raise DemoError(f"redis-cli could not make a cluster of the servers:\n{made.stdout}{made.stderr}")
    deadline = time.monotonic() + _READY_S
    host, _, port = nodes[-1].partition(":")
    with redis.Redis(host=host, port=int(port), password=password, socket_timeout=5) as client:
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            if time.monotonic() > deadline:
                raise DemoError(f"the cluster of {', '.join(nodes)} was not ready within {_READY_S:.0f} s")
            time.sleep(_LOOK_S)


def _is_ready(server: subprocess.Popen[bytes], port: int, password: str) -> bool:
    """Wait until a server answers; return False if it has ended or does not answer in time."""
    deadline = time.monotonic() + _READY_S
    at_once = Retry(NoBackoff(), 0)
    with redis.Redis(host=_HOST, port=port, password=password, socket_timeout=1, retry=at_once) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                # Another server may have taken the port first.
                if client.info("server")["process_id"] == server.pid:
                    return True
            except redis.RedisError:
                pass
            time.sleep(_LOOK_S)
    return False


def _program(name: str) -> str:
    program = shutil.which(name)
    if program is None:
        raise DemoError(f"there is no {name} on the PATH. `make demo PROVIDER=redis` finds or installs one.")
    return program


def _free_port() -> int:
    while True:
        port = _LOWEST_PORT + secrets.randbelow(_PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind((_HOST, port))
            return port


def _password(folder: Path) -> tuple[str, Path]:
    password = secrets.token_urlsafe()
    return password, _private_file(folder / "password", password + "\n")


def _private_file(path: Path, text: str) -> Path:
    path.touch(mode=0o600)
    path.write_text(text)
    return path
