"""A real Redis Cluster of a test session's own: masters with a replica each, on free loopback ports."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import redis

from tests.servers.redis_server import AT_ONCE, RedisServer
from tests.support.certificates import Certificates

_SLOTS = 16384
_READY_SECONDS = 60.0
# Redis gives up a CLUSTER FAILOVER after 5 s, and says so only in its log: on a busy machine the replica may not have
# reached its master's offset by then, or the other masters may have voted too late. Ask again after that time.
_FAILOVER_SECONDS = 6.0

# With these, a replica takes over soon. Without, only after Redis's own 15 s: a busy machine is no lost master.
QUICK_TO_FAIL_OVER = {"cluster_node_timeout": 2_000}


class RedisCluster:
    """Masters and replicas, each a `RedisServer` that may be killed and started again."""

    def __init__(
        self,
        program: str,
        directory: Path,
        *,
        masters: int = 3,
        password: str | None = None,
        certificates: Certificates | None = None,
        **options: Any,
    ) -> None:
        self._program, self._directory = program, directory
        self._settings: dict[str, Any] = {
            "password": password,
            "certificates": certificates,
            "cluster_enabled": "yes",
            "cluster_config_file": "nodes.conf",
            # A replica takes over however old its data is: the tests want to see what was lost.
            "cluster_replica_validity_factor": 0,
            "repl_diskless_sync_delay": 0,
            **options,
        }
        if password is not None:
            self._settings["masterauth"] = password
        if certificates is not None:
            self._settings.update({"tls_cluster": "yes", "tls_replication": "yes"})
        self._servers = [self._new_server(number) for number in range(2 * masters)]
        self.masters, self.replicas = self._servers[:masters], self._servers[masters:]

    @property
    def nodes(self) -> list[str]:
        return [f"{server.host}:{server.port}" for server in self._servers]

    def start(self) -> None:
        """Start all servers, join them, and return when every slot is served and every replica is in step."""
        try:
            for server in self._servers:
                server.start()
            self._join()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for server in self._servers:
            server.stop()

    close = stop

    def pause(self) -> None:
        for server in self._servers:
            server.pause()

    def resume(self) -> None:
        for server in self._servers:
            server.resume()

    def add_master(self) -> RedisServer:
        """Start one more master, without slots and without a replica, and let all servers know it."""
        server = self._new_server(len(self._servers))
        server.start()
        self._ask(server, "CLUSTER MEET", self.masters[0].host, self.masters[0].port)
        self._servers.append(server)
        self._wait_until_all_have_met()
        wait_until(lambda: self._ask(server, "CLUSTER INFO")["cluster_state"] == "ok", "the new server to serve")
        return server

    def promote(self, replica: RedisServer) -> None:
        """Let a replica change places with its master, nothing lost, and wait until all is in step again."""
        asked = 0.0

        def promoted() -> bool:
            nonlocal asked
            if time.monotonic() > asked + _FAILOVER_SECONDS:
                asked = time.monotonic()
                self._ask(replica, "CLUSTER FAILOVER")
            return replica in self.current_masters()

        wait_until(promoted, f"{replica.port} to be a master")
        self.wait_until_in_step()

    def flush(self) -> None:
        for server in self.current_masters():
            with server.client() as client:
                client.flushall()
                client.script_flush()

    def current_masters(self) -> list[RedisServer]:
        return [server for server in self._servers if server.is_running and self._ask(server, "ROLE")[0] == b"master"]

    def slot_of(self, key: str) -> int:
        slot: int = self._ask(self._any(), "CLUSTER KEYSLOT", key)
        return slot

    def master_of(self, key: str) -> RedisServer:
        owner = self._owner_of(self.slot_of(key))
        assert owner is not None, f"nobody serves the slot of {key}"
        return owner

    def replica_of(self, master: RedisServer) -> RedisServer:
        return next(
            server
            for server in self._servers
            if server.is_running and (role := self._ask(server, "ROLE"))[0] == b"slave" and int(role[2]) == master.port
        )

    def begin_move(self, slot: int, source: RedisServer, target: RedisServer) -> None:
        """Begin to move a slot: its keys may be on either server until `end_move`."""
        self._ask(target, "CLUSTER SETSLOT", slot, "IMPORTING", self._id(source))
        self._ask(source, "CLUSTER SETSLOT", slot, "MIGRATING", self._id(target))

    def move_keys(self, slot: int, source: RedisServer, target: RedisServer, count: int = 1_000) -> int:
        with source.client() as client:
            keys = client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, count)
            if keys:
                login = ["AUTH", source.password] if source.password else []
                client.execute_command("MIGRATE", target.host, target.port, "", 0, 10_000, *login, "KEYS", *keys)
            return len(keys)

    def end_move(self, slot: int, target: RedisServer) -> None:
        """Give the slot to its new server, and wait until all servers know."""
        owner = self._id(target)
        for server in [target, *self._servers]:
            with contextlib.suppress(redis.ResponseError):  # refused by replicas
                self._ask(server, "CLUSTER SETSLOT", slot, "NODE", owner)

        def known() -> bool:
            running = (server for server in self._servers if server.is_running)
            return all(self._owner_of(slot, server) is target for server in running)

        wait_until(known, f"slot {slot} to be {target.port}'s")

    def move(self, slot: int, source: RedisServer, target: RedisServer) -> None:
        self.begin_move(slot, source, target)
        while self.move_keys(slot, source, target):
            pass
        self.end_move(slot, target)

    def bring_back(self, slot: int, owner: RedisServer, other: RedisServer) -> None:
        """Give a slot back to the first of two servers, however far its move from there to the second has come."""
        if self._owner_of(slot) is other:
            self.move(slot, other, owner)
            return
        # The owner first: it would refer all that comes back to where it comes from.
        self._ask(owner, "CLUSTER SETSLOT", slot, "STABLE")
        while self.move_keys(slot, other, owner):
            pass
        self._ask(other, "CLUSTER SETSLOT", slot, "STABLE")

    def cut_off(self, replica: RedisServer) -> None:
        """Stop a replica, and see to it that what its master takes from now on never reaches it."""
        master = self._at(int(self._ask(replica, "ROLE")[2]))
        replica.pause()
        with master.client() as client:
            client.client_kill_filter(_type="replica")

    def wait_until_announced(self, ports: Sequence[int]) -> None:
        """Wait until every server gives these ports, and no others, for the servers."""

        def announced() -> bool:
            return all(
                {int(name.rpartition(":")[2]) for name in self._nodes(server)} == set(ports) for server in self._servers
            )

        wait_until(announced, "the ports to be announced")

    def wait_until_served(self) -> None:
        """Wait until every slot is served by a master that runs, replicas or not."""

        def served() -> bool:
            covered = 0
            for server in self.current_masters():
                if not self._sees_all_slots(server):
                    return False
                covered += sum(
                    last - first + 1
                    for first, last, master, *_ in self._ask(server, "CLUSTER SLOTS")
                    if int(master[1]) == server.port
                )
            return covered == _SLOTS

        wait_until(served, "every slot to be served")

    def wait_until_in_step(self) -> None:
        wait_until(self._is_whole, "the cluster to be whole")

    def _join(self) -> None:
        first = self._servers[0]
        share = -(-_SLOTS // len(self.masters))
        for number, master in enumerate(self.masters):
            self._ask(master, "CLUSTER SET-CONFIG-EPOCH", number + 1)
            self._ask(master, "CLUSTER ADDSLOTS", *range(number * share, min(_SLOTS, (number + 1) * share)))
        for server in self._servers[1:]:
            self._ask(server, "CLUSTER MEET", first.host, first.port)
        self._wait_until_all_have_met()
        for master, replica in zip(self.masters, self.replicas, strict=True):
            self._ask(replica, "CLUSTER REPLICATE", self._id(master))
        self.wait_until_in_step()

    def _new_server(self, number: int) -> RedisServer:
        return RedisServer(self._program, self._directory / str(number), **self._settings)

    def _wait_until_all_have_met(self) -> None:
        count = len(self._servers)

        def met() -> bool:
            known = [self._nodes(server) for server in self._servers]
            return all(
                len(nodes) == count and not any("handshake" in flags for flags in nodes.values()) for nodes in known
            )

        wait_until(met, "the servers to meet")

    def _is_whole(self) -> bool:
        return all(
            self._sees_all_slots(server)
            and not any("fail" in flags or "handshake" in flags for flags in self._nodes(server).values())
            and self._is_in_step_with_master(server)
            for server in self._servers
        )

    def _sees_all_slots(self, server: RedisServer) -> bool:
        info = self._ask(server, "CLUSTER INFO")
        return info["cluster_state"] == "ok" and int(info["cluster_slots_ok"]) == _SLOTS

    def _is_in_step_with_master(self, server: RedisServer) -> bool:
        role = self._ask(server, "ROLE")
        if role[0] == b"master":
            return len(role[2]) > 0  # a replica is connected
        if role[3] != b"connected":
            return False
        return bool(self._ask(self._at(int(role[2])), "ROLE")[1] == role[4])

    def _nodes(self, server: RedisServer) -> dict[str, str]:
        return {name: node["flags"] for name, node in self._ask(server, "CLUSTER NODES").items()}

    def _owner_of(self, slot: int, asked: RedisServer | None = None) -> RedisServer | None:
        """Return the server that owns a slot in the view of the one that is asked."""
        for first, last, master, *_ in self._ask(asked or self._any(), "CLUSTER SLOTS"):
            if first <= slot <= last:
                return self._at(int(master[1]))
        return None

    def _id(self, server: RedisServer) -> str:
        identity: bytes = self._ask(server, "CLUSTER MYID")
        return identity.decode()

    def _any(self) -> RedisServer:
        return next(server for server in self._servers if server.is_running)

    def _at(self, port: int) -> RedisServer:
        return next(server for server in self._servers if server.port == port)

    def _ask(self, server: RedisServer, command: str, *arguments: Any) -> Any:
        with server.client(retry=AT_ONCE, socket_timeout=5) as client:
            return client.execute_command(command, *arguments)


def wait_until(condition: Callable[[], bool], what: str, seconds: float = _READY_SECONDS) -> None:
    """Wait until a condition holds; a server that does not answer counts as "not yet"."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(redis.RedisError, OSError):
            if condition():
                return
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.02)


def each_key(cluster: RedisCluster) -> Iterator[bytes]:
    for server in cluster.current_masters():
        with server.client() as client:
            yield from client.scan_iter()
