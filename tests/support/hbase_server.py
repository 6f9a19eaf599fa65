"""A real HBase of a test's own with its Thrift server, from the pinned jars (tools/hbase_artefacts.py).

What HBase has acknowledged survives a SIGKILL of its processes, so each of them may be killed and started again.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import happybase
from Hbase_thrift import AlreadyExists
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.thrift import TException

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import hbase_artefacts  # (the tools are scripts, not a package)

from tests.support.server_process import HOST, OwnedProcess, free_port, port_was_taken

_READY_SECONDS = 180.0
_START_ATTEMPTS = 3

# What Hadoop and HBase reach into, one flag each on Java 17 and later.
_OPENED = (
    "java.nio",
    "sun.nio.ch",
    "java.lang",
    "jdk.internal.ref",
    "java.lang.reflect",
    "java.util",
    "java.util.concurrent",
)
_EXPORTED = ("jdk.internal.misc", "sun.net.dns", "sun.net.util")
_JVM = [
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true"),
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    *(f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTED),
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
]

# The waits of a start that are meant for a cluster of many machines: 5 s instead of 14 s without them.
_FAST_START = {
    "hbase.regionserver.msginterval": 100,
    "hbase.master.wait.on.regionservers.timeout": 100,
    "hbase.master.wait.on.regionservers.interval": 50,
    "hbase.master.wait.on.regionservers.maxtostart": 1,
    "hbase.procedure.remote.dispatcher.delay.msec": 0,
}

LOW_RETRY = {
    "hbase.client.retries.number": 2,
    "hbase.client.pause": 50,
    "hbase.rpc.timeout": 3000,
    "hbase.client.operation.timeout": 5000,
    "hbase.client.meta.operation.timeout": 5000,
    "zookeeper.recovery.retry": 1,
    "zookeeper.session.timeout": 6000,
}
"""Settings with which the Thrift server gives an error within seconds, not minutes, while HBase is down."""

_LOG4J = """\
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{ISO8601} %-5p [%t] %c{2}: %.2000m%n
"""
_ZOOKEEPER = """\
tickTime=1000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
"""

ZOOKEEPER, MASTER, REGION_SERVER, THRIFT = "zookeeper", "master", "region-server", "thrift"

_MAIN = {
    ZOOKEEPER: ("128m", "org.apache.zookeeper.server.ZooKeeperServerMain"),
    MASTER: ("512m", "org.apache.hadoop.hbase.master.HMaster"),
    REGION_SERVER: ("512m", "org.apache.hadoop.hbase.regionserver.HRegionServer"),
    THRIFT: ("256m", "org.apache.hadoop.hbase.thrift.ThriftServer"),
}


@dataclass(frozen=True)
class HBaseProgram:
    jars: Path
    java_home: Path

    @classmethod
    def installed(cls) -> HBaseProgram:
        """Return what set-up fetched. Raises `LookupError` that says what is missing."""
        jars, java_home = hbase_artefacts.cached(), hbase_artefacts.find_java()
        if jars is None:
            raise LookupError("the jars of HBase are not here; `make set-up` fetches them")
        if java_home is None:
            raise LookupError("there is no Java 17 or 21 for HBase; `make set-up` says how to install one")
        return cls(jars, Path(java_home))


class HBaseServer:
    """HBase and one Thrift server in a directory; each process may be killed and started again on its port and data.

    Not distributed, master, region server and ZooKeeper are one process, called `MASTER`; distributed, each is one of
    its own. The Thrift server, `THRIFT`, always is; with `behind`, it is the only one, in front of that server's HBase.
    """

    def __init__(
        self,
        program: HBaseProgram,
        directory: Path,
        *,
        transport: str = "buffered",
        protocol: str = "binary",
        distributed: bool = False,
        behind: HBaseServer | None = None,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        self.host = HOST
        self.port = 0
        self.transport = transport
        self.protocol = protocol
        self.directory = directory
        self._program = program
        self._distributed = distributed
        self._behind = behind
        self._settings = dict(settings or {})
        self._processes: dict[str, OwnedProcess] = {}
        self._ports: list[int] = []
        for name in ("conf", "logs", "tmp"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    @property
    def parts(self) -> tuple[str, ...]:
        if self._behind is not None:
            return (THRIFT,)
        return (ZOOKEEPER, MASTER, REGION_SERVER, THRIFT) if self._distributed else (MASTER, THRIFT)

    def pid(self, part: str) -> int:
        return self._processes[part].pid

    def log(self, part: str) -> str:
        path = self._log_path(part)
        return path.read_text(errors="replace") if path.exists() else ""

    def start(self) -> None:
        """Start what does not run, and return when a table can be made and written to."""
        for attempt in range(_START_ATTEMPTS):
            if not self._ports:
                of_hbase = self._behind._ports[:3] if self._behind else [free_port() for _ in range(3)]
                self._ports = [*of_hbase, free_port()]
                self.port = self._ports[3]
                self._write_settings()
            for part in self.parts:
                if part not in self._processes:
                    self._launch(part)
            dead = self._wait(self._is_serving)
            if dead is None:
                return
            said = self.log(dead)[-3000:]
            first = not (self.directory / "data").exists()  # later its ports are known to others
            self.kill()
            if not first or not port_was_taken(said) or attempt == _START_ATTEMPTS - 1:
                raise RuntimeError(f"the {dead} of HBase ended by itself:\n{said}")
            self._ports = []  # somebody else took one of them meanwhile

    def start_part(self, part: str) -> None:
        self._launch(part)

    def kill(self, part: str | None = None) -> None:
        for name in [part] if part else [name for name in reversed(self.parts) if name in self._processes]:
            self._processes.pop(name).end(signal.SIGKILL)

    def stop(self, part: str | None = None) -> None:
        for name in [part] if part else [name for name in reversed(self.parts) if name in self._processes]:
            self._processes.pop(name).end(signal.SIGTERM)

    def close(self) -> None:
        self.kill()

    def set(self, name: str, value: str | int) -> None:
        """Change a setting; each process has it from its next start on."""
        self._settings[name] = value
        self._write_settings()

    def pause(self, part: str) -> None:
        self._processes[part].pause()

    def go_on(self, part: str) -> None:
        self._processes[part].resume()

    def connection(self, *, timeout_seconds: float = 30.0) -> happybase.Connection:
        """Return an open connection to the Thrift server; the caller closes it."""
        return happybase.Connection(
            self.host, self.port, timeout=int(timeout_seconds * 1000), transport=self.transport, protocol=self.protocol
        )

    def _wait(self, is_ready: Callable[[], bool]) -> str | None:
        """Return None when it is ready, or the name of a part that has ended by itself."""
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            for name, process in self._processes.items():
                if process.has_ended:
                    return name
            if is_ready():
                return None
            time.sleep(0.05)
        raise RuntimeError(f"HBase did not serve within {_READY_SECONDS:.0f} s:\n{self.log(MASTER)[-3000:]}")

    def _is_serving(self) -> bool:
        def write(connection: happybase.Connection) -> None:
            # Tables are listed well before the master makes one, and a region takes a put later still.
            with suppress(AlreadyExists):
                connection.create_table("ready", {"f": {}})
            connection.table("ready").put(b"r", {b"f:q": b"v"})

        return self._asked(write)

    def _asked(self, question: Callable[[happybase.Connection], Any]) -> bool:
        try:
            connection = self.connection()
            try:
                question(connection)
            finally:
                connection.close()
        except (TException, HBaseIOError, OSError):
            return False
        return True

    def _launch(self, part: str) -> None:
        assert part not in self._processes, f"the {part} is running"
        heap, main = _MAIN[part]
        arguments = ["start"]
        if part == ZOOKEEPER:
            arguments = [str(self.directory / "conf" / "zoo.cfg")]
        elif part == THRIFT:
            arguments += ["-p", str(self.port), "--bind", self.host]
            arguments += ["-f"] if self.transport == "framed" else []
            arguments += ["-c"] if self.protocol == "compact" else []
        java = [str(self._program.java_home / "bin" / "java"), f"-Xmx{heap}", *_JVM]
        java += [
            f"-Djava.io.tmpdir={self.directory / 'tmp'}",
            "-cp",
            f"{self.directory / 'conf'}:{self._program.jars}/*",
        ]
        self._processes[part] = OwnedProcess([*java, main, *arguments], self._log_path(part), cwd=self.directory)

    def _write_settings(self) -> None:
        zookeeper, master, region_server, _ = self._ports
        data = self.directory / "zookeeper"
        settings: dict[str, str | int] = {
            "hbase.cluster.distributed": str(self._distributed).lower(),
            "hbase.rootdir": f"file://{self.directory / 'data'}",
            "hbase.tmp.dir": str(self.directory / "tmp"),
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.zookeeper.quorum": self.host,
            "hbase.zookeeper.property.clientPort": zookeeper,
            "hbase.zookeeper.property.dataDir": str(data),
            "hbase.master.port": master,
            "hbase.regionserver.port": region_server,
            "hbase.master.info.port": -1,
            "hbase.regionserver.info.port": -1,
            "hbase.thrift.info.port": -1,
            "hbase.master.hostname": "localhost",
            "hbase.regionserver.hostname": "localhost",
            "hbase.master.ipc.address": self.host,
            "hbase.regionserver.ipc.address": self.host,
            **_FAST_START,
        }
        if self._distributed:
            settings["zookeeper.session.timeout"] = 4000
        settings.update(self._settings)
        lines = [
            f"  <property><name>{name}</name><value>{value}</value></property>\n" for name, value in settings.items()
        ]
        conf = self.directory / "conf"
        (conf / "hbase-site.xml").write_text(f"<configuration>\n{''.join(lines)}</configuration>\n")
        (conf / "log4j.properties").write_text(_LOG4J)
        (conf / "zoo.cfg").write_text(_ZOOKEEPER.format(data=data, port=zookeeper))

    def _log_path(self, part: str) -> Path:
        return self.directory / "logs" / f"{part}.log"
