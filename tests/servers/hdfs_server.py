"""A real HDFS of a test's own, from the pinned jars (tools/hdfs_artefacts.py): a NameNode and a DataNode.

What a client has synced or closed survives a SIGKILL of either process, so each may be killed and started again.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import hbase_artefacts  # (the tools are scripts, not a package)
import hdfs_artefacts

from tests.servers.server_process import OwnedProcess, Server, free_port

NAME_NODE, DATA_NODE = "namenode", "datanode"

_MAIN = {
    NAME_NODE: "org.apache.hadoop.hdfs.server.namenode.NameNode",
    DATA_NODE: "org.apache.hadoop.hdfs.server.datanode.DataNode",
}
_JVM = [
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Djava.net.preferIPv4Stack=true"),
    "--add-opens=java.base/java.lang=ALL-UNNAMED",  # without it WebHDFS answers with status 500
]
_LOG4J = """\
log4j.rootLogger=WARN,A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=%d %p %c{1}: %m%n
"""
# Files that the distribution has, and its jars have not.
_WEB_APPS = ("hdfs", "datanode")


@dataclass(frozen=True)
class HdfsProgram:
    jars: Path
    java_home: Path

    @classmethod
    def installed(cls) -> HdfsProgram:
        """Return what set-up fetched. Raises `LookupError` that says what is missing."""
        jars, java_home = hdfs_artefacts.JARS.cached(), hbase_artefacts.find_java()
        if jars is None:
            raise LookupError("the jars of HDFS are not here; `make set-up` fetches them")
        if java_home is None:
            raise LookupError("there is no Java 17 or 21 for HDFS; `make set-up` says how to install one")
        return cls(jars, Path(java_home))


class HdfsServer(Server):
    """One HDFS without permissions; `NAME_NODE` and `DATA_NODE` are its parts, killed and started again by name."""

    ready_seconds = 120.0
    poll_seconds = 0.05
    parts = (NAME_NODE, DATA_NODE)

    def __init__(self, program: HdfsProgram, directory: Path) -> None:
        super().__init__(directory)
        self._program = program
        self._http_port = 0
        self._data_http_port = 0

    @property
    def uri(self) -> str:
        """The URI of the root, without a slash at its end: `hdfs://127.0.0.1:12345`."""
        return f"hdfs://{self.host}:{self.port}"

    @property
    def hadoop_conf(self) -> dict[str, str]:
        """What Hadoop's configuration says on a machine that uses this HDFS, but for `fs.defaultFS`, which is `uri`.

        Spark has each of them as `spark.hadoop.<name>`.
        """
        return {"dfs.namenode.http-address": f"{self.host}:{self._http_port}", "dfs.replication": "1"}

    def close(self) -> None:
        self.kill()

    def _choose_ports(self) -> None:
        self.port, self._http_port, self._data_http_port = free_port(), free_port(), free_port()
        conf = self.directory / "conf"
        for name in _WEB_APPS:
            folder = conf / "webapps" / name / "WEB-INF"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "web.xml").write_text("<web-app/>\n")
        (conf / "webapps" / "static").mkdir(exist_ok=True)
        (conf / "log4j.properties").write_text(_LOG4J)
        settings = {
            "fs.defaultFS": self.uri,
            **self.hadoop_conf,
            "dfs.namenode.name.dir": f"file://{self.directory / 'name'}",
            "dfs.datanode.data.dir": f"file://{self.directory / 'data'}",
            "hadoop.tmp.dir": str(self.directory / "tmp"),
            "dfs.datanode.address": f"{self.host}:{free_port()}",
            "dfs.datanode.ipc.address": f"{self.host}:{free_port()}",
            "dfs.datanode.http.address": f"{self.host}:{self._data_http_port}",
            "dfs.datanode.hostname": self.host,  # WebHDFS sends clients to it
            "dfs.heartbeat.interval": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.safemode.extension": "0",
            "dfs.namenode.safemode.threshold-pct": "0",
        }
        lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()]
        for file in ("core-site.xml", "hdfs-site.xml"):
            (conf / file).write_text("\n".join(["<configuration>", *lines, "</configuration>\n"]))
        if not (self.directory / "name").exists():
            format_name = [*self._java, _MAIN[NAME_NODE], "-format", "-force"]
            subprocess.run(format_name, check=True, capture_output=True, cwd=self.directory)

    @property
    def _java(self) -> list[str]:
        classes = f"{self.directory / 'conf'}:{self._program.jars}/*"
        return [str(self._program.java_home / "bin" / "java"), *_JVM, "-cp", classes]

    def _launch(self, part: str) -> OwnedProcess:
        return OwnedProcess([*self._java, _MAIN[part]], self._log_path(part), cwd=self.directory)

    def _is_ready(self) -> bool:
        """Whether both processes know each other and every block is there to be read.

        The NameNode counts a DataNode as alive for minutes after its death, so the DataNode is asked as well.
        """
        try:
            names = _bean(self._http_port, "Hadoop:service=NameNode,name=FSNamesystem*")
            data = _bean(self._data_http_port, "Hadoop:service=DataNode,name=DataNodeInfo")
            actors = json.loads(data["BPServiceActorInfo"])
        except (OSError, http.client.HTTPException, ValueError, LookupError):
            return False
        registered = bool(actors) and all(each["ActorState"] == "RUNNING" for each in actors)
        return registered and names.get("NumLiveDataNodes") == 1 and names.get("MissingBlocks") == 0


def _bean(port: int, query: str) -> dict[str, Any]:
    """Return the attributes of all of Java's management beans that match, as a process of Hadoop shows them."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("GET", f"/jmx?qry={query}")
        beans = json.loads(connection.getresponse().read())["beans"]
    return {name: value for bean in beans for name, value in bean.items()}
