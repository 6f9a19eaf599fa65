"""A run of the job of this folder that a test accompanies: it hangs at named points while the test does harm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anchorbolt.faults.injection import FAULTS_VARIABLE, Fault, FaultFolder
from tests.cli.command import Command, run_arguments, wait_until
from tests.crash.job import write_waves
from tests.crash.outcome import differences
from tests.support import spark_jvm

__all__ = ["AccompaniedRun"]


class AccompaniedRun:
    """One topology's input, state and drivers, below one folder.

    Attributes:
        folder: The job's current directory.
        conf: Its configuration.
        waves: The words of each wave of its input.
        faults: The faults of all drivers that are started `faulty`.
    """

    def __init__(
        self,
        home: Path,
        provider: str,
        config: Mapping[str, Any],
        *,
        waves: int = 4,
        large: int | None = None,
        faults: Sequence[Fault] = (),
        conf: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = home / "run"
        self.conf: dict[str, Any] = {
            "topology.checkpoint.location": str(self.folder / "checkpoint"),
            "topology.state.provider": provider,
            "topology.state.provider.config": dict(config),
            **(conf or {}),
        }
        self.waves = write_waves(self.folder, waves, large)
        self.faults = FaultFolder(home / "faults")
        self.faults.write(faults)
        self._conf_path = home / "conf.json"
        self._drivers: list[Command] = []

    def start(
        self, *, faulty: bool = True, master: str = "local[2]", spark: Mapping[str, str] | None = None
    ) -> Command:
        """Start a driver, which runs until the input is empty.

        Args:
            faulty: Whether the faults hold for it.
            master: The Spark master.
            spark: Settings of Spark.
        """
        self._conf_path.write_text(json.dumps(self.conf))
        environment = {FAULTS_VARIABLE: str(self.faults.path)} if faulty else {}
        if spark:
            environment |= spark_jvm.environment(spark)
        arguments = ("--until-empty", "--conf", str(self._conf_path), "--master", master)
        command = run_arguments("tests.crash.job:topology", *arguments)
        driver = Command(command, directory=self.folder, env=environment)
        self._drivers.append(driver)
        return driver

    def wait_for_fault(self, number: int) -> int:
        """Wait until a fault, by its number, has struck; return the process id of where it did."""
        driver = self._drivers[-1]
        wait_until(
            lambda: bool(self._struck(number)) or driver.has_ended, f"fault {number} struck in {driver!r}"
        )
        assert self._struck(number), f"it ended before fault {number} struck: {driver!r}"
        return int(self._struck(number)[0]["pid"])

    def wait_for_commit(self, txid: int) -> None:
        """Wait until a transaction is COMMITTED, in a driver that the faults hold for."""
        driver = self._drivers[-1]

        def committed() -> bool:
            return any(
                event["event"] == "commit.recorded" and event["txid"] == txid
                for event in self.faults.events()
            )

        wait_until(lambda: committed() or driver.has_ended, f"txid {txid} committed by {driver!r}")
        assert committed(), repr(driver)

    def differences(self, waves: int | None = None, *, tidy: bool = True) -> list[str]:
        """Say in which ways the outcome of all waves, or of the first few, is not what it must be."""
        return differences(self.folder, self.conf, self.waves[:waves], tidy=tidy)

    def close(self) -> None:
        """End whatever runs."""
        for driver in self._drivers:
            driver.close()

    def _struck(self, number: int) -> list[dict[str, Any]]:
        return [event for event in self.faults.events() if event.get("number") == number]
