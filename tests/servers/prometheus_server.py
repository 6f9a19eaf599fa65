"""A real Prometheus of a test's own, which scrapes one target a second and loads the alerts of `deploy/`."""

import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.servers.server_process import HOST, OwnedProcess, Server

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yml"


class PrometheusServer(Server):
    """One Prometheus, with the scrape job `anchorbolt`."""

    def __init__(self, program: str, directory: Path, target: str) -> None:
        """`target` is the host and port to scrape, as `127.0.0.1:9095`."""
        super().__init__(directory)
        directory.mkdir(parents=True, exist_ok=True)
        self._program = program
        self._configuration = directory / "prometheus.yml"
        # JSON is YAML.
        self._configuration.write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(ALERTS)],
                    "scrape_configs": [{"job_name": "anchorbolt", "static_configs": [{"targets": [target]}]}],
                }
            )
        )

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer of its API."""
        asked = f"http://{HOST}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return json.load(answer)["data"]

    def value(self, query: str) -> float | None:
        """Return the value of a query with at most one result; None without one."""
        found = self.get("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def _launch(self, part: str) -> OwnedProcess:
        command = [
            self._program,
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self.directory / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
        ]
        return OwnedProcess(command, self._log_path(part), cwd=self.directory)

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self.port}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False
