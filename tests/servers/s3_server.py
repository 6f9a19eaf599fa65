"""A real S3 protocol of a test's own: moto's server, in its own environment (tools/s3_artefacts.py).

It keeps everything in memory: what ends its process empties the store.
"""

from __future__ import annotations

import http.client
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

import pyspark
import s3_artefacts  # (the tools are scripts, not a package)

from tests.servers.server_process import OwnedProcess, Server

_ACCESS_KEY, _SECRET_KEY, _REGION = "testing", "testing-secret", "us-east-1"


@dataclass(frozen=True)
class S3Program:
    python: Path  # of the environment that has moto
    client: Path  # the directory of the jars that Spark needs

    @classmethod
    def installed(cls) -> S3Program:
        """Return what set-up installed. Raises `LookupError` that says what is missing."""
        python, client = s3_artefacts.moto_python(), s3_artefacts.CLIENT.cached()
        if python is None or client is None:
            raise LookupError("moto or the jars of hadoop-aws are not here; `make set-up` fetches them")
        of_jars = next(jar.version for jar in s3_artefacts.CLIENT.pinned() if jar.name == "hadoop-aws")
        if not Path(pyspark.__file__).with_name("jars").joinpath(f"hadoop-client-api-{of_jars}.jar").exists():
            raise LookupError(
                f"hadoop-aws is pinned to {of_jars}, and PySpark {pyspark.__version__} has another Hadoop"
            )
        return cls(python, client)

    @property
    def client_jars(self) -> str:
        """The value of `spark.jars`."""
        return ",".join(map(str, sorted(self.client.glob("*.jar"))))


class S3Server(Server):
    """One S3, spoken to without encryption; it accepts every login."""

    ready_seconds = 60.0

    def __init__(self, program: S3Program, directory: Path) -> None:
        super().__init__(directory)
        self._program = program
        self._buckets = 0

    @property
    def client_jars(self) -> str:
        """The value of `spark.jars`: what Spark needs for `s3a://`."""
        return self._program.client_jars

    @property
    def hadoop_conf(self) -> dict[str, str]:
        """What Hadoop's configuration says on a machine that uses this S3; Spark has each as `spark.hadoop.<name>`."""
        return {
            "fs.s3a.endpoint": f"http://{self.host}:{self.port}",
            "fs.s3a.endpoint.region": _REGION,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
            "fs.s3a.access.key": _ACCESS_KEY,
            "fs.s3a.secret.key": _SECRET_KEY,
        }

    def new_bucket(self) -> str:
        """Make an empty bucket and return its URI, without a slash at its end: `s3a://bucket-1`."""
        self._buckets += 1
        name = f"bucket-{self._buckets}"
        status = self._ask("PUT", f"/{name}")
        assert status == 200, f"a bucket cannot be made: status {status}"
        return f"s3a://{name}"

    def close(self) -> None:
        self.kill()

    def _launch(self, part: str) -> OwnedProcess:
        command = [str(self._program.python), "-m", "moto.server", "-H", self.host, "-p", str(self.port)]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"}
        return OwnedProcess(command, self._log_path(part), cwd=self.directory, env=environment)

    def _is_ready(self) -> bool:
        try:
            return self._ask("GET", "/moto-api/") == 200
        except (OSError, http.client.HTTPException):
            return False

    def _ask(self, method: str, path: str) -> int:
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=10)) as connection:
            connection.request(method, path, headers={"Content-Length": "0"})
            response = connection.getresponse()
            response.read()
            return response.status
