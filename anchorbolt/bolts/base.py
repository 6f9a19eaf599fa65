"""What a job author extends: the three kinds of bolt, and when each of their hooks is called."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from anchorbolt.state_backends.state import State
from anchorbolt.streams.context import TopologyContext
from anchorbolt.streams.declaration import OutputFieldsDeclarer
from anchorbolt.streams.tuple import Tuple

if TYPE_CHECKING:
    from anchorbolt.bolts.collector import BasicOutputCollector, OutputCollector

S = TypeVar("S", bound=State)


class Bolt(ABC):
    """What all bolts have in common.

    A bolt object is built by the job, pickled once with the topology, and unpickled for each of its tasks. Attributes
    set before that travel along and must be picklable; open files, connections and locks in `prepare` instead.
    """

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that this bolt emits. Called once, while the topology is built, never on a worker.

        A bolt that emits nothing need not override it.
        """

    def cleanup(self) -> None:
        """Let go of what `prepare` opened.

        Called once on every instance that is let go in an orderly way; never when a worker is killed.
        """


class BaseRichBolt(Bolt):
    """A bolt without state that anchors and acks by itself.

    An instance is kept by its worker and may see any later wave of its task, or none: its attributes are a cache.
    """

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called once for an instance, before its first tuple. Keep `collector`; open what must be opened."""

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple. An exception that leaves it fails the wave: it is rolled back and tried again."""


class BaseBasicBolt(Bolt):
    """A bolt without state whose tuples are anchored to their input, and acked, by the framework."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called once for an instance, before its first tuple."""

    @abstractmethod
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Process one tuple. An exception that leaves it fails the wave: it is rolled back and tried again."""


class BaseStatefulBolt(Bolt, Generic[S]):
    """A bolt with durable state, checkpointed once a wave.

    The order of calls on an instance: `prepare`, `init_state`, then for each wave any number of `execute`,
    `pre_prepare(txid)`, and, once the driver has decided, `pre_commit(txid)` or `pre_rollback()`. An instance is used
    again only if it processed the directly preceding wave of its task; else a new one is built, whose `init_state`
    gets the state as committed. So what must survive is kept in the state, and nothing else.

    Attributes:
        state_schema_version: Version of the shape of this bolt's values, from 1; counted up, in the class, when a new
            deployment stores them in another shape. See `upcast`.
    """

    state_schema_version: int = 1

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector) -> None:
        """Called once for an instance, before `init_state`. The state is not there yet."""

    @abstractmethod
    def init_state(self, state: S) -> None:
        """Called once for an instance, after `prepare` and before the first tuple: keep `state`."""

    @abstractmethod
    def execute(self, tup: Tuple) -> None:
        """Process one tuple. An exception that leaves it fails the wave: it is rolled back and tried again."""

    def pre_prepare(self, txid: int) -> None:
        """Called after the last tuple of a wave, just before the state is staged. What it puts is part of `txid`."""

    def pre_commit(self, txid: int) -> None:
        """Called after the driver's decision, just before the state is committed.

        May be called again for the same txid after a crash, and on an instance that did not process the wave. What
        it puts into the state is not kept. Without an override no worker is asked to run it.
        """

    def pre_rollback(self) -> None:
        """Called just before the state goes back to the last commit, on the task's current instance if it lives.

        Never called when the worker was killed. Without an override no worker is asked to run it.
        """

    def upcast(self, key: Any, value: Any, version: int) -> Any:
        """Turn a value that was stored under schema `version` into what `version + 1` makes of it.

        Called when a value is read that was written under an older `state_schema_version`, once for each version in
        between; such a value stays as it is in the store until it is put again. Must be a pure function: it is called
        for each reading of the value, and on instances for which `prepare` is not called.
        Never called for a value of the current version.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not override upcast for schema version {version}"
        )

    def state_keys(self, tup: Tuple) -> Iterable[Any]:
        """Name the keys of the state that `execute(tup)` will read, so that they are fetched once for a whole batch.

        By default the value (or, of several fields, the tuple of values) that the tuple was grouped by; nothing
        where it did not come by a fields grouping. A key left out is still found, with a round trip of its own.
        """
        raise NotImplementedError  # never called: the executor knows the default, and takes it by column
