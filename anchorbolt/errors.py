"""All errors that Anchorbolt raises on purpose, in one class tree.

All derive from `AnchorboltError`; errors of state providers from `StateError`, errors of encoding from
`SerializationError`. Errors cross process boundaries, so each of them survives pickling with all its attributes. A
message names the problem and ends with the next action. It never contains a secret.
"""

from typing import Any

__all__ = [
    "AnchorboltError",
    "BoltError",
    "CodecMismatch",
    "CollectorClosed",
    "ConfigError",
    "FaultInjected",
    "Fenced",
    "InfrastructureLost",
    "JobError",
    "LocationUnavailable",
    "MigrationRefused",
    "PlatformError",
    "QueryChanged",
    "SerializationError",
    "SinkUnavailable",
    "SourceUnavailable",
    "SpoutError",
    "StaleAttempt",
    "StateCorrupted",
    "StateError",
    "StateRegressed",
    "StateUnavailable",
    "TopologyError",
    "UnsupportedJavaClass",
    "UnsupportedValue",
    "WaveFailed",
    "WorkerLost",
]


class AnchorboltError(Exception):
    """Base of all errors of this package.

    Attributes:
        message: The whole message, same as `str(error)`.
        found_late: Whether a value was refused with its buffer, after the `execute` that emitted it. The engine then
            runs the wave again in a round that checks each emit.
    """

    found_late: bool = False

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by `__init__`: its other arguments are not in `args`.
        return Exception.__new__, (type(self), *self.args), dict(self.__dict__)


class ConfigError(AnchorboltError):
    """A configuration key is unknown, or its value cannot be used.

    Attributes:
        key: The offending key, or None; an inner key is dotted.
    """

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class TopologyError(AnchorboltError):
    """The graph of spouts and bolts is wrong.

    Attributes:
        component: Id of the offending component, or None if the topology as a whole is wrong.
    """

    def __init__(self, message: str, *, component: str | None = None) -> None:
        super().__init__(message)
        self.component = component


class JobError(AnchorboltError):
    """The job to run could not be found or loaded."""


class PlatformError(AnchorboltError):
    """Java, Spark or a Python package is missing on this machine, or too old."""


class SerializationError(AnchorboltError):
    """A value could not be encoded, or bytes could not be decoded."""


class UnsupportedValue(SerializationError):
    """The type or size of a key or value is not supported. It was refused before anything was changed."""


class UnsupportedJavaClass(SerializationError):
    """Bytes that Storm stored hold an object of a Java class that cannot be read: a user's own, or an unknown one.

    Attributes:
        java_class: The class's name, or its id, such as "id 12", if the bytes hold no name.
        class_id: The id; None if the bytes hold a name.
    """

    def __init__(self, message: str, *, java_class: str, class_id: int | None = None) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.class_id = class_id


class BoltError(AnchorboltError):
    """A user's bolt raised an exception, or called `fail`. The message starts with the user's traceback.

    Attributes:
        component: Id of the component.
        task_index: Index of the task within its component.
        tuple_text: The tuple that the bolt was executing, shortened; None outside `execute`.
        user_traceback: The user's traceback as text; empty if the bolt called `fail`.
    """

    def __init__(
        self, message: str, *, component: str, task_index: int, tuple_text: str | None = None, user_traceback: str = ""
    ) -> None:
        super().__init__(message)
        self.component = component
        self.task_index = task_index
        self.tuple_text = tuple_text
        self.user_traceback = user_traceback


class CollectorClosed(AnchorboltError):
    """A bolt or a spout called its collector at a forbidden time or on a wrong thread. The call had no effect.

    Attributes:
        component: Id of the component.
        call: The collector's method, such as "ack".
    """

    def __init__(self, message: str, *, component: str, call: str) -> None:
        super().__init__(message)
        self.component = component
        self.call = call


class SpoutError(AnchorboltError):
    """A user's spout raised an exception. The message starts with the user's traceback.

    Attributes:
        component: Id of the spout.
        task_index: Index of the task within the spout.
        user_traceback: The user's traceback as text.
    """

    def __init__(self, message: str, *, component: str, task_index: int, user_traceback: str) -> None:
        super().__init__(message)
        self.component = component
        self.task_index = task_index
        self.user_traceback = user_traceback


class WaveFailed(AnchorboltError):
    """A round of a wave did not finish: a task was lost, or did not get its complete input.

    Attributes:
        txid: The wave's transaction id.
    """

    def __init__(self, message: str, *, txid: int) -> None:
        super().__init__(message)
        self.txid = txid


class WorkerLost(WaveFailed):
    """A worker process ended before its tasks had reported: it was killed, or crashed, or a bolt ended it.

    Also raised if executors were lost so often in one wave that one of its tuples is the suspected cause.
    """


class InfrastructureLost(WaveFailed):
    """Spark or the network lost something that a round needed: an executor, its shuffle files, a connection.

    The batch is not the cause: the wave is tried again for up to `topology.message.timeout.secs`.

    Attributes:
        while_running: Whether Spark suspects that a task ended its executor; the task may as well have been a victim.
    """

    def __init__(self, message: str, *, txid: int, while_running: bool = False) -> None:
        super().__init__(message, txid=txid)
        self.while_running = while_running


class FaultInjected(AnchorboltError):
    """A test injected an error at this point."""


class QueryChanged(AnchorboltError):
    """The state was computed by a different streaming query than the starting one."""


class MigrationRefused(AnchorboltError):
    """A migration would not be safe, or did not give the expected result. Its source is unchanged."""


class StateError(AnchorboltError):
    """A state provider refused or failed.

    Attributes:
        namespace: The namespace, or None if the error concerns the whole store.
    """

    def __init__(self, message: str, *, namespace: str | None = None) -> None:
        super().__init__(message)
        self.namespace = namespace


class StateUnavailable(StateError):
    """The store could not be reached, or did not answer in time. The call may or may not have had its effect.

    Attributes:
        waits_for: Names the service that a run waits for, for messages, such as "the state store".
    """

    waits_for = "the state store"


class SinkUnavailable(StateUnavailable):
    """A sink's output or outbox, or the dead letters, could not be reached, read or written."""

    waits_for = "the sink"


class LocationUnavailable(StateUnavailable):
    """The file system of the checkpoint location, or of a sink, could not be reached, or did not answer in time."""

    waits_for = "the file system"


class SourceUnavailable(StateUnavailable):
    """A spout could not reach its source, or the source did not answer in time."""

    waits_for = "the source"


class Fenced(StateError):
    """A call had a lower fence than the namespace: a newer driver, or a newer round, has taken over."""


class StaleAttempt(StateError):
    """An attempt's updates are based on another committed state, or are not completely staged and sealed."""


class StateRegressed(StateError):
    """The store does not hold the state that the decision record names: it went back in time, or lost data.

    Attributes:
        expected: The state according to the record.
        found: The state in the store.
    """

    def __init__(self, message: str, *, namespace: str | None = None, expected: str = "", found: str = "") -> None:
        super().__init__(message, namespace=namespace)
        self.expected = expected
        self.found = found


class CodecMismatch(StateError):
    """The namespace was written with another codec, or codec version, than the configured one."""


class StateCorrupted(StateError):
    """The store holds bytes that Anchorbolt cannot have written."""
