"""The port through which a run has its waves; each engine implements it. And what has become of a run."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from anchorbolt.checkpoint.spout import CheckpointSpout, CommittedWave
from anchorbolt.engine.driver.wave_report import WaveReport

WaveCommitted = Callable[[WaveReport, CommittedWave], None]
"""Called after each committed wave."""


class RunStatus(str, Enum):
    """What has become of a run; see `RunHandle.status`."""

    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"
    FAILED = "FAILED"


class Waves(Protocol):
    """The waves of a run."""

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, or an empty string."""

    def start(self, spout: CheckpointSpout, add: WaveCommitted, *, until_empty: bool) -> None:
        """Start the source. The spout has recovered; `add` is to be called after each committed wave."""

    def wait(self) -> BaseException | None:
        """Run waves until `stop` or, with `until_empty`, until the source is empty. Return or raise the error."""

    def stop(self) -> bool:
        """End the waves after the current one. Return False if a listener calls this, for which that wave waits."""

    def pause(self) -> None:
        """Ask no source for more, and begin no wave but for what is in flight. Return at once.

        Has no effect after `stop`.
        """

    def wait_until_paused(self, timeout: float | None) -> bool:
        """Wait until the pause has ended all waves, or is over; return False after `timeout` seconds."""

    def resume(self) -> None:
        """End the pause, if any. Return at once."""
