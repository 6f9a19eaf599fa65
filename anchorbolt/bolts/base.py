"""Base classes for bolts, and when the engine calls each of their hooks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple
from anchorbolt.util.times import Duration

if TYPE_CHECKING:
    from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector
    from anchorbolt.state_backends.timed.timers import Timer, Timers

S = TypeVar("S", bound=State)


class FailedException(Exception):
    """Raised by a bolt's `execute` to fail its tuple, as `collector.fail` does. Any other exception fails the wave.

    In a topology without rich spouts this exception fails the wave too. With `topology.acker.executors: 0` it has no
    effect if all spouts are rich, and fails the wave otherwise.
    """


class ReportedFailedException(FailedException):
    """Fails the tuple, and is also logged and counted like `collector.report_error`."""


class Bolt(ABC):
    """Base class of all bolts.

    The job builds a bolt object; the engine pickles it with the topology and unpickles it for each of its tasks. So
    attributes set in `__init__` must be picklable. Open files, connections and locks in `prepare` instead.
    """

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that this bolt emits. Called once, while the topology is built, never on a worker.

        A bolt that emits nothing need not override this method.
        """

    def get_component_configuration(self) -> Mapping[str, Any]:
        """Return settings of this bolt. Called once, while the topology is built.

        A bolt can set only `topology.tick.tuple.freq.secs`: the time between its tick tuples, in seconds. See
        `Tuple.is_tick`.
        """
        return {}

    def check_inputs(self, inputs: Mapping[tuple[str, str], tuple[str, ...]]) -> None:
        """Check the input streams when the topology is created. Raise `TopologyError` for one that does not fit.

        Args:
            inputs: The fields of each input stream, by the emitting component and the stream.
        """

    def as_executed(self) -> Bolt:
        """Return the bolt that the engine calls: this one, or one that calls it. Called once, by the builder."""
        return self

    def cleanup(self) -> None:
        """Close what `prepare` opened.

        Called once on each instance before the engine drops it; never when the worker is killed.
        """


class BaseRichBolt(Bolt):
    """A bolt without state that anchors and acks its tuples itself.

    The worker keeps the instance, which may get any later waves of its task, or none, and may get a repeated round. So
    use its attributes only as a cache, and never to keep tuples.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called once for an instance, before its first tuple. Keep `collector`; open files and connections here."""

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple. If it raises, except `FailedException`, the engine rolls the wave back and tries again."""


class BaseBasicBolt(Bolt):
    """A bolt without state. The framework anchors its tuples to their input, and acks the input."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once for an instance, before its first tuple."""

    @abstractmethod
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Process one tuple. If it raises, except `FailedException`, the engine rolls the wave back and tries again."""


class BaseStatefulBolt(Bolt, Generic[S]):
    """A bolt with durable state, checkpointed once a wave.

    The order of calls on an instance: `prepare`, `init_state`, `init_timers`, then for each wave any number of
    `execute`, any number of `on_timer`, `pre_prepare(txid)`, and, once the driver has decided, `pre_commit(txid)` or
    `pre_rollback()`. The engine uses an instance again only if it processed the directly preceding wave of its task;
    otherwise it builds a new one and calls `init_state` with the committed state. So keep in the state whatever must
    survive.

    Attributes:
        state_schema_version: Version of the format of this bolt's values, from 1. Increase it in the class when a new
            deployment stores values in another format; see `upcast`.
        state_ttl: How long an entry lives after its last put, unless that put names a TTL: a timedelta, or text such
            as "30 d"; None for `topology.state.ttl.secs`, "never" for entries that stay whatever that says.
        event_time: The field of each input stream with the tuple's event time: ms since 1970, or an aware datetime.
            None for a bolt without event time.
        lag: How much later than a later one a tuple may come: the watermark is the largest event time of the slowest
            input stream, less this.
        idle: A stream without a tuple for so long, by the waves' clock, does not hold the watermark back; None for
            never.
        max_ahead: An event time that is further than this ahead of the clock does not move the watermark, so that one
            wrong tuple does not make all timers due.
    """

    state_schema_version: int = 1
    state_ttl: Duration | None = None
    event_time: str | None = None
    lag: Duration = "0 s"
    idle: Duration | None = None
    max_ahead: Duration = "1 d"

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called once for an instance, before `init_state`. There is no state yet."""

    @abstractmethod
    def init_state(self, state: S) -> None:
        """Called once for an instance, after `prepare` and before the first tuple. Keep `state`."""

    def init_timers(self, timers: Timers[Any]) -> None:
        """Called once for an instance, after `init_state`, if the bolt overrides `on_timer`. Keep `timers`."""

    def on_timer(self, timer: Timer) -> None:
        """Called for each timer that is due, after the tuples of a wave and before `pre_prepare`.

        What it emits is anchored to the timer: `anchors=timer`. Such a tuple belongs to no tuple tree. Never called for
        a cancelled timer, or again for one whose wave has committed.
        """
        raise NotImplementedError  # never called: only bolts that override it have timers

    def timer_keys(self, timer: Timer) -> Iterable[Any]:
        """Return the keys of the state that `on_timer(timer)` will read; those of many timers are fetched together.

        By default the timer's own key.
        """
        return (timer.key,)

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple. If it raises, except `FailedException`, the engine rolls the wave back and tries again."""

    def pre_prepare(self, txid: int) -> None:
        """Called after the last tuple of a wave, just before the state is staged. Its updates belong to `txid`."""

    def pre_commit(self, txid: int) -> None:
        """Called after the driver's decision, just before the state is committed.

        May be called again for the same txid after a crash, and on an instance that did not process the wave. The
        engine drops updates made to the state here. Without an override the engine starts no job for this hook.
        """

    def pre_rollback(self) -> None:
        """Called just before the state goes back to the last commit, on the task's current instance if it still exists.

        Never called when the worker was killed. Without an override the engine starts no job for this hook.
        """

    def upcast(self, key: Any, value: Any, version: int) -> Any:
        """Convert a value from the format of schema `version` to the format of `version + 1`.

        Called when a value that is read was written under an older `state_schema_version`, once for each version step.
        The store keeps the old value until the bolt puts it again. Must be a pure function: it is called for each read
        of the value, also on instances for which `prepare` is not called. Never called for a value of the current
        version.
        """
        raise NotImplementedError(f"{type(self).__name__} does not override upcast for schema version {version}")

    def state_keys(self, tup: Tuple) -> Iterable[Any]:
        """Return the keys of the state that `execute(tup)` will read; they are fetched together for a whole blob.

        By default, the value by which the tuple was grouped (a tuple of values for several fields); no key without a
        fields grouping. `execute` can still read other keys, with one round trip for each.
        """
        raise NotImplementedError  # never called: `wrapped_bolts` implements the default, column by column
