"""The port of a source, which gives the waves of a run their tuples. A new kind of source extends `Source`."""

from collections.abc import Callable, Iterable

from anchorbolt.checkpoint.coordinator import CheckpointCoordinator, CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.messages import Envelope


class Source:
    """One source of a run.

    ```
    open ──▶ poll ──▶ next ──▶ rows, for each round ──▶ settle, if the wave commits ──▶ end_wave ──▶ close ──▶ finished
              ▲                                                                            │
              └────────────────────────────────────────────────────────────────────────────┘
    ```

    All sources are part of each wave: if `poll` of one source says that a wave is needed, `next` of all is called. The
    thread of the wave loop makes all calls, unless a method says otherwise. A method that is not overridden does
    nothing, except `pause`, `resume` and `drain`.
    """

    is_over = False
    """Whether this source has ended by itself: the run then ends once all sources are empty."""

    is_held = False
    """Whether the run is paused or ending: the source asks for no more."""

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, if this is one and has run before."""
        return ""

    def open(self, checkpoints: CheckpointCoordinator, wake: Callable[[], None], *, until_empty: bool) -> None:
        """Continue after the last decision.

        Args:
            checkpoints: The coordinator of the checkpoints, which has recovered.
            wake: Makes the loop call `poll` again. May be called on any thread.
            until_empty: Whether the run ends once all sources are empty.

        Raises:
            AnchorboltError: The source cannot be opened. The run does not start, and `close` is called.
        """

    def check(self) -> None:
        """Raise the error of a source that has failed meanwhile. Called between waves, also in a pause."""

    def poll(self) -> bool:
        """Return whether a wave is needed: tuples wait, or something is due.

        In a pause, or while the source drains, only work that it has already begun counts.
        """
        return False

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        """Take the waiting data for the wave that begins.

        Args:
            record: The last decision.
            batch: The batch of a source before this one; None if no such source has a batch.

        Returns: The batch that the wave processes: `batch`, or one of this source. If no source has a batch, the wave
            belongs to the last batch again.
        """
        return batch

    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of this source's tasks for a round of the wave.

        Called only by an engine that runs these tasks in the driver's process.
        """
        return ()

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        """Note that the wave has committed; return its report with this source's figures."""
        return report

    def end_wave(self, txid: int) -> None:
        """Forget the data that `next` took, after `settle` or after the wave has failed.

        `txid` belongs to the last decision: it is the wave's txid if the wave was decided.
        """

    def explained(self, error: BaseException) -> BaseException:
        """Return the error of a failed wave, or a better one if this source knows the cause."""
        return error

    def idle(self) -> None:
        """Do postponed work. Called while no wave is needed."""

    def pause(self) -> None:
        """Ask for no more until `resume`. May be called on any thread."""
        self.is_held = True

    def resume(self) -> None:
        """Ask for more again. May be called on any thread."""
        self.is_held = False

    def drain(self) -> None:
        """Ask for no more, because the run is ending. May be called on any thread, and repeatedly."""
        self.is_held = True

    def has_run_out(self, held_s: float) -> bool:
        """Return whether the work begun before `pause` or `drain` needs no wave any more.

        `held_s` is the seconds since `pause` or `drain`: a source must not wait forever.
        """
        return True

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits, nothing is in flight, and nothing is expected soon."""
        return True

    def would_end(self) -> bool:
        """Return whether a wave is needed before the run ends. Called when all sources are empty."""
        return False

    def close(self, failure: BaseException | None) -> BaseException | None:
        """Release all resources; no wave runs any more. May be called for a source that was not opened.

        Returns the error that ends the run: `failure`, or one that explains it.
        """
        return failure

    def finished(self) -> None:
        """Write the data for the next run. Called after all sources were closed, if the run ended without an error."""
