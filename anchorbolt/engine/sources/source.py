"""The port of a source: what the waves of a run take their tuples from. A new kind of source extends `Source`."""

from collections.abc import Callable, Iterable

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch, Round
from anchorbolt.checkpoint.spout import CheckpointSpout, CommittedWave
from anchorbolt.engine.sources.wave_report import WaveReport
from anchorbolt.engine.task.messages import Envelope


class Source:
    """One source of a run.

    ```
    open ──▶ poll ──▶ next ──▶ rows, for each round ──▶ settle, if the wave commits ──▶ end ──▶ close ──▶ finished
              ▲                                                                          │
              └──────────────────────────────────────────────────────────────────────────┘
    ```

    All sources are part of each wave: if `poll` of one says that a wave is needed, `next` of all is called. The thread
    of the wave loop makes all calls, except those that say otherwise. A method that is not overridden does nothing:
    that suits a source for which there is nothing to do.
    """

    is_over = False
    """Whether it never has more, although nobody stopped the run: the run ends once the other sources are empty."""

    def query_id(self) -> str:
        """Return the id of the streaming query at the checkpoint location, if this is one and has run before."""
        return ""

    def open(self, spout: CheckpointSpout, wake: Callable[[], None], *, until_empty: bool) -> None:
        """Continue after the last decision.

        Args:
            spout: The checkpoint spout, which has recovered.
            wake: Has the loop call `poll` again. May be called on any thread.
            until_empty: Whether the run ends once all sources are empty.

        Raises:
            AnchorboltError: The source cannot be opened. The run does not start, and `close` is called.
        """

    def check(self) -> None:
        """Raise the error of a source that has failed meanwhile. Called between waves, also in a pause."""

    def poll(self) -> bool:
        """Return whether a wave is needed: tuples wait, or it is time for something.

        In a pause, or while the source drains, only what it has begun counts.
        """
        return False

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        """Take what waits for the wave that begins.

        Args:
            record: The last decision.
            batch: The batch of a source before this one; None if none has any.

        Returns:
            The batch that the wave processes: `batch`, or one of this source. If no source has any, the wave belongs to
            the last batch again.
        """
        return batch

    def rows(self, current: Round) -> Iterable[Envelope]:
        """Return the blobs of this source's tasks for a round of the wave.

        Called only by an engine that runs them in the driver's process.
        """
        return ()

    def settle(self, wave: CommittedWave, report: WaveReport) -> WaveReport:
        """Note that the wave has committed; return its report with what is known here."""
        return report

    def end(self, txid: int) -> None:
        """Forget what `next` has taken, after `settle` or after the wave has failed.

        `txid` is the last decision's: that of the wave if it was decided.
        """

    def explained(self, error: BaseException) -> BaseException:
        """Return the error with which a wave has failed, or a better one that this source knows the cause of."""
        return error

    def rest(self) -> None:
        """Do what was left for a moment without a wave: the next one may be far away."""

    def pause(self) -> None:
        """Ask for no more until `resume`. May be called on any thread."""

    def resume(self) -> None:
        """Ask for more again. May be called on any thread."""

    def drain(self) -> None:
        """Ask for no more: the run is to end. May be called on any thread, and repeatedly."""

    def has_run_out(self, held_s: float) -> bool:
        """Return whether what was begun before `pause` or `drain` needs no wave any more.

        `held_s` is for how many seconds the source has been asked for no more: nothing may be waited for without end.
        """
        return True

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits or is in flight, and nothing more is to be expected soon."""
        return True

    def close(self, failure: BaseException | None) -> BaseException | None:
        """Let go of everything; no wave runs any more. May be called for a source that was not opened.

        Returns the error that ends the run: `failure`, or one that explains it.
        """
        return failure

    def finished(self) -> None:
        """Write what the next run should know, after a run that ended well. Called after all sources were closed."""
