"""The word count on isolated machines: its files, its configuration, its drivers, and what it has left."""

import json
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.crash.deaths.drivers import Driver
from tests.crash.machines import job
from tests.crash.machines.places import Place
from tests.crash.outcome import state_of
from tests.servers.isolated_cluster import IsolatedCluster
from tests.servers.redis_server import RedisServer
from tests.support import spark_jvm
from tests.support.stores import settings_of

_POLL_S = 0.02
_TAIL = 6000


class MachinesRun:
    """A job below a folder of its own: started, fed and judged by a test that kills in between."""

    def __init__(self, home: Path, cluster: IsolatedCluster, store: RedisServer, place: Place, **conf: Any) -> None:
        self._folder = home / "run"
        self._folder.mkdir()
        self.cluster = cluster
        self._place = place
        self._lines: list[str] = []
        self.marker = place.shared / "marker"
        """The file in which a worker that waits at the word `PAUSE` writes the number of its machine."""
        self.conf: dict[str, Any] = {
            **settings_of(store),
            "topology.checkpoint.location": f"{place.uri}/checkpoint",
            "topology.state.checkpoint.interval.ms": 100,
            "topology.message.timeout.secs": 120,  # Kafka starts slowly on a busy machine
            **place.job_conf,
            "job.marker": str(self.marker),
            **conf,
        }
        (self._folder / "conf.json").write_text(json.dumps(self.conf))
        self.job = self._folder / "wordjob.py"
        shutil.copy(job.__file__, self.job)
        self.drivers: list[Driver] = []

    def add_input(self, lines: Iterable[str]) -> None:
        """Add the lines of one wave."""
        new = list(lines)
        self._lines += new
        self._place.add_wave(new)

    def start(self, *, until_empty: bool = True) -> Driver:
        """Start a driver with `anchorbolt run`."""
        command = [sys.executable, "-m", "anchorbolt", "run", f"{self.job}:topology", "--conf", "conf.json"]
        return self.start_command([*command, "--master", self.cluster.url, *(["--until-empty"] if until_empty else [])])

    def start_command(self, command: list[str]) -> Driver:
        """Start any command in the folder of the job and with Spark's settings for it."""
        environment = {
            "PYSPARK_PYTHON": str(self.cluster.python),
            "PYSPARK_DRIVER_PYTHON": sys.executable,  # spark-submit would run the driver with the executors' Python
            **spark_jvm.environment(self._place.spark_conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        log = self._folder / f"start-{len(self.drivers) + 1}.log"
        self.drivers.append(Driver(command, log, folder=self._folder, environment=environment))
        return self.drivers[-1]

    def wait_for(self, condition: Callable[[], object], deadline_s: float = 120.0) -> None:
        """Wait until something is true while the last driver runs."""
        deadline = time.monotonic() + deadline_s
        driver = self.drivers[-1]
        while not condition():
            assert driver.exit_code is None, f"the driver ended with {driver.exit_code}:\n{driver.text[-_TAIL:]}"
            assert time.monotonic() < deadline, f"waited for {deadline_s:.0f} s:\n{driver.text[-_TAIL:]}"
            time.sleep(_POLL_S)

    def wait_for_end(self, deadline_s: float = 240.0) -> int:
        """Wait until the last driver has ended, and return its exit code."""
        deadline = time.monotonic() + deadline_s
        driver = self.drivers[-1]
        while driver.exit_code is None:
            assert time.monotonic() < deadline, f"runs for more than {deadline_s:.0f} s:\n{driver.text[-_TAIL:]}"
            time.sleep(_POLL_S)
        return driver.exit_code

    def paused_machine(self) -> int:
        """Wait until a worker waits at `PAUSE`, and return the number of its machine."""
        self.wait_for(self.marker.exists)
        return int(self.marker.read_text())

    def problems(self) -> list[str]:
        """Say what is not as it must be once all input is processed: in the state, and in the rows of the sink."""
        wanted = Counter(word for line in self._lines for word in line.split())
        found = []
        counts, leftovers = state_of(self.conf, "count", job.NAME)
        if counts != wanted:
            found.append(f"the state lacks {wanted - Counter(counts)} and has {Counter(counts) - wanted} too often")
        if leftovers:
            found.append(f"{', '.join(leftovers)} keep leftovers of dead attempts")
        rows = self._place.rows()
        wanted_rows = Counter((word, count + 1) for word, times in wanted.items() for count in range(times))
        if rows != wanted_rows:
            found.append(f"the sink lacks {wanted_rows - rows} and has {rows - wanted_rows} too often")
        return found

    def close(self) -> None:
        """End every driver with its JVM."""
        for driver in self.drivers:
            driver.end_session()
