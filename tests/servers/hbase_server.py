"""A real HBase of a test's own with its Thrift server, from the pinned jars (tools/hbase_artefacts.py).

What HBase has acknowledged survives a SIGKILL of its processes, so each of them may be killed and started again.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import happybase
from Hbase_thrift import AlreadyExists
from Hbase_thrift import IOError as HBaseIOError
from thriftpy2.thrift import TException

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import hbase_artefacts  # (the tools are scripts, not a package)

from tests.servers.server_process import OwnedProcess, Server, free_port

# What Hadoop and HBase reach into, one flag each on Java 17 and later.
_OPENED = ["java.nio", "java.lang", "java.lang.reflect", "java.util", "java.util.concurrent"]
_OPENED += ["sun.nio.ch", "jdk.internal.ref"]
_EXPORTED = ["jdk.internal.misc", "sun.net.dns", "sun.net.util"]
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
    MASTER: ("768m", "org.apache.hadoop.hbase.master.HMaster"),
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
        jars, java_home = hbase_artefacts.JARS.cached(), hbase_artefacts.find_java()
        if jars is None:
            raise LookupError("the jars of HBase are not here; `make set-up` fetches them")
        if java_home is None:
            raise LookupError("there is no Java 17 or 21 for HBase; `make set-up` says how to install one")
        return cls(jars, Path(java_home))


class HBaseServer(Server):
    """HBase and one Thrift server in a directory; each process may be killed and started again on its port and data.

    Not distributed, master, region server and ZooKeeper are one process, called `MASTER`; distributed, each is one of
    its own. The Thrift server, `THRIFT`, always is; with `behind`, it is the only one, in front of that server's HBase.
    """

    ready_seconds = 180.0
    poll_seconds = 0.05

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
        super().__init__(directory)
        self.transport = transport
        self.protocol = protocol
        self._program = program
        self._distributed = distributed
        self._behind = behind
        self._settings = dict(settings or {})
        self._ports: list[int] = []
        if behind is not None:
            self.parts = (THRIFT,)
        else:
            self.parts = (ZOOKEEPER, MASTER, REGION_SERVER, THRIFT) if distributed else (MASTER, THRIFT)
        for name in ("conf", "tmp"):
            (directory / name).mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        self.kill()

    def set(self, name: str, value: str | int) -> None:
        """Change a setting; each process has it from its next start on."""
        self._settings[name] = value
        self._write_settings()

    @property
    def zookeeper_port(self) -> int:
        """For Java's clients of HBase, which do not use Thrift."""
        return self._ports[0]

    def connection(self) -> happybase.Connection:
        """Return an open connection to the Thrift server; the caller closes it."""
        return happybase.Connection(
            self.host, self.port, timeout=30_000, transport=self.transport, protocol=self.protocol
        )

    def _is_ready(self) -> bool:
        try:
            with closing(self.connection()) as connection:
                # Tables are listed well before the master makes one, and a region takes a put later still.
                with suppress(AlreadyExists):
                    connection.create_table("ready", {"f": {}})
                connection.table("ready").put(b"r", {b"f:q": b"v"})
        except (TException, HBaseIOError, OSError):
            return False
        return True

    def _choose_ports(self) -> None:
        of_hbase = self._behind._ports[:3] if self._behind else [free_port() for _ in range(3)]
        self.port = free_port()
        self._ports = [*of_hbase, self.port]
        self._write_settings()

    def _launch(self, part: str) -> OwnedProcess:
        heap, main = _MAIN[part]
        arguments = ["start"]
        if part == ZOOKEEPER:
            arguments = [str(self.directory / "conf" / "zoo.cfg")]
        elif part == THRIFT:
            arguments += ["-p", str(self.port), "--bind", self.host]
            arguments += ["-f"] if self.transport == "framed" else []
            arguments += ["-c"] if self.protocol == "compact" else []
        java = [str(self._program.java_home / "bin" / "java"), f"-Xmx{heap}", *_JVM]
        java += [f"-Djava.io.tmpdir={self.directory}/tmp", "-cp", f"{self.directory}/conf:{self._program.jars}/*"]
        return OwnedProcess([*java, main, *arguments], self._log_path(part), cwd=self.directory)

    def _write_settings(self) -> None:
        zookeeper, master, region_server, _ = self._ports
        data = self.directory / "zookeeper"
        settings: dict[str, str | int] = {
            "hbase.cluster.distributed": str(self._distributed).lower(),
            "hbase.rootdir": f"file://{self.directory / 'data'}",
            "hbase.tmp.dir": str(self.directory / "tmp"),
            "hbase.unsafe.stream.capability.enforce": "false",
            "hbase.hregion.memstore.mslab.enabled": "false",  # it takes 2 MB for each table, and tests make many
            "hbase.zookeeper.quorum": self.host,
            "hbase.zookeeper.property.clientPort": zookeeper,
            "hbase.zookeeper.property.dataDir": str(data),
            "hbase.master.port": master,
            "hbase.regionserver.port": region_server,
            **{f"hbase.{each}.info.port": -1 for each in ("master", "regionserver", "thrift")},
            **{f"hbase.{each}.hostname": "localhost" for each in ("master", "regionserver")},
            **{f"hbase.{each}.ipc.address": self.host for each in ("master", "regionserver")},
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
