"""A real Kafka of a test's own, from the pinned jars (tools/kafka_artefacts.py): one process, broker and controller.

What Kafka has acknowledged survives a SIGKILL, so it may be killed and started again.
"""

from __future__ import annotations

import base64
import secrets
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import hbase_artefacts  # (the tools are scripts, not a package)
import kafka_artefacts

from tests.servers.server_process import OwnedProcess, Server, free_port

_JVM = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true"]
_API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)  # the request that any client sends first
_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
group.initial.rebalance.delay.ms=0
initial.broker.registration.timeout.ms=240000
"""


@dataclass(frozen=True)
class KafkaProgram:
    jars: Path
    connector: Path  # the directory of the jars that Spark needs
    java_home: Path

    @classmethod
    def installed(cls) -> KafkaProgram:
        """Return what set-up fetched. Raises `LookupError` that says what is missing."""
        jars, connector = kafka_artefacts.BROKER.cached(), kafka_artefacts.CONNECTOR.cached()
        java_home = hbase_artefacts.find_java()
        if jars is None or connector is None:
            raise LookupError("the jars of Kafka are not here; `make set-up` fetches them")
        if java_home is None:
            raise LookupError("there is no Java 17 or 21 for Kafka; `make set-up` says how to install one")
        return cls(jars, connector, Path(java_home))

    @property
    def connector_jars(self) -> str:
        """The value of `spark.jars`."""
        return ",".join(map(str, sorted(self.connector.glob("*.jar"))))


class KafkaServer(Server):
    """One Kafka, which clients reach at `servers` without encryption or login."""

    ready_seconds = 120.0
    poll_seconds = 0.05

    def __init__(self, program: KafkaProgram, directory: Path) -> None:
        super().__init__(directory)
        self._program = program
        self._controller = 0

    @property
    def servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def connector_jars(self) -> str:
        return self._program.connector_jars

    def close(self) -> None:
        self.kill()

    def _choose_ports(self) -> None:
        self.port, self._controller = free_port(), free_port()
        data = self.directory / "data"
        self._settings.write_text(
            _SETTINGS.format(host=self.host, port=self.port, controller=self._controller, data=data)
        )
        if not data.exists():
            cluster = base64.urlsafe_b64encode(b"\1" + secrets.token_bytes(15)).decode().rstrip("=")
            format_data = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
            subprocess.run([*self._java, *format_data], check=True, capture_output=True)

    @property
    def _settings(self) -> Path:
        return self.directory / "server.properties"

    @property
    def _java(self) -> list[str]:
        return [str(self._program.java_home / "bin" / "java"), *_JVM, "-cp", f"{self._program.jars}/*"]

    def _launch(self, part: str) -> OwnedProcess:
        command = [*self._java, "kafka.Kafka", str(self._settings)]
        return OwnedProcess(command, self._log_path(part), cwd=self.directory)

    def _is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection((self.host, self.port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS)
            return len(connection.recv(4)) == 4
        return False
