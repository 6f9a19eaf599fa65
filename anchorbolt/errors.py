"""Every error that Anchorbolt raises on purpose, in one tree.

```
AnchorboltError
├── ConfigError            a configuration key or value is wrong
├── TopologyError          the graph of spouts and bolts is wrong
├── JobError               the job's module, name or file cannot be loaded
├── PlatformError          Java, Spark or a Python package is missing or too old
├── SerializationError     a value cannot be encoded or decoded
│   ├── UnsupportedValue   … because of its type or size: it was refused, nothing was changed
│   └── UnsupportedJavaClass   what Storm kept is of a Java class that only its own code can read
├── BoltError              a user's bolt raised, or called `fail`
├── WaveFailed             a wave could not be finished within its retries
├── FaultInjected          a test asked for it, see `anchorbolt.faults.points`
├── QueryChanged           the streaming query is not the one that the state was computed from
├── MigrationRefused       a tool of `migration_tools` refused, or could not finish; its source is untouched
└── StateError             a state provider refused or failed
    ├── StateUnavailable   the store cannot be reached, or did not answer in time
    ├── Fenced             a newer driver or a newer round owns the namespace
    ├── StaleAttempt       the staged updates are not based on what is committed
    ├── StateRegressed     the store went back in time, or lost data
    ├── CodecMismatch      the namespace was written with another codec
    └── StateCorrupted     bytes in the store are not what was written
```

Errors cross Spark's worker processes, so each of them survives pickling with all its attributes. A message names the
offending thing and ends with what to do next. It never holds a secret.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AnchorboltError",
    "BoltError",
    "CodecMismatch",
    "ConfigError",
    "FaultInjected",
    "Fenced",
    "JobError",
    "MigrationRefused",
    "PlatformError",
    "QueryChanged",
    "SerializationError",
    "StaleAttempt",
    "StateCorrupted",
    "StateError",
    "StateRegressed",
    "StateUnavailable",
    "TopologyError",
    "UnsupportedJavaClass",
    "UnsupportedValue",
    "WaveFailed",
]


class AnchorboltError(Exception):
    """Base of all errors of this package.

    Attributes:
        message: The whole message, as shown by `str`.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(
    cls: type[AnchorboltError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> AnchorboltError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ConfigError(AnchorboltError):
    """A configuration key is unknown, or its value cannot be used.

    Attributes:
        key: The offending key, dotted where it is an inner one.
    """

    def __init__(self, message: str, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class TopologyError(AnchorboltError):
    """The topology cannot be run as it was wired.

    Attributes:
        component: The id of the offending component, or None where the topology as a whole is wrong.
    """

    def __init__(self, message: str, *, component: str | None = None) -> None:
        super().__init__(message)
        self.component = component


class JobError(AnchorboltError):
    """The job to run could not be found or loaded."""


class PlatformError(AnchorboltError):
    """Something that this machine must offer is missing or too old: Java, Spark, a package."""


class SerializationError(AnchorboltError):
    """A value could not be encoded, or bytes could not be decoded."""


class UnsupportedValue(SerializationError):
    """A key or value was refused before anything was changed, because its type or size is not supported."""


class UnsupportedJavaClass(SerializationError):
    """Bytes that Storm kept hold an object of a Java class that cannot be read: the user's own, or an unknown one.

    Attributes:
        java_class: The class's name, or "id 12" where the bytes hold no name.
        class_id: That id; None where they hold a name.
    """

    def __init__(self, message: str, *, java_class: str, class_id: int | None = None) -> None:
        super().__init__(message)
        self.java_class = java_class
        self.class_id = class_id


class BoltError(AnchorboltError):
    """A user's bolt raised an exception, or called `fail`. The message starts with the user's own traceback.

    Attributes:
        component: Id of the component.
        task_index: Index of the task within its component.
        tuple_text: The tuple that was being executed, shortened; None outside `execute`.
        user_traceback: The user's traceback as text; empty where the bolt called `fail`.
    """

    def __init__(
        self, message: str, *, component: str, task_index: int, tuple_text: str | None, user_traceback: str
    ) -> None:
        super().__init__(message)
        self.component = component
        self.task_index = task_index
        self.tuple_text = tuple_text
        self.user_traceback = user_traceback


class WaveFailed(AnchorboltError):
    """A round of a wave did not finish: a task was lost, or did not see what it had to see.

    Attributes:
        txid: The wave's transaction id.
    """

    def __init__(self, message: str, *, txid: int) -> None:
        super().__init__(message)
        self.txid = txid


class FaultInjected(AnchorboltError):
    """A test asked for an error at this point."""


class QueryChanged(AnchorboltError):
    """The state belongs to another streaming query than the one that is starting."""


class MigrationRefused(AnchorboltError):
    """A migration would not be safe, or did not give what it had to. What it read from is as it was."""


class StateError(AnchorboltError):
    """A state provider refused or failed.

    Attributes:
        namespace: The namespace concerned, or None where the whole store is.
    """

    def __init__(self, message: str, *, namespace: str | None = None) -> None:
        super().__init__(message)
        self.namespace = namespace


class StateUnavailable(StateError):
    """The store could not be reached, or did not answer in time. The outcome of the call is unknown."""


class Fenced(StateError):
    """A call carried a fence lower than the namespace's: a newer driver, or a newer round, has taken over."""


class StaleAttempt(StateError):
    """An attempt's updates do not fit what is committed, or are not staged and sealed as they must be."""


class StateRegressed(StateError):
    """The store is not where its decision record says that it must be: it went back in time, or lost data.

    Attributes:
        expected: What the record says.
        found: What the store holds.
    """

    def __init__(
        self, message: str, *, namespace: str | None = None, expected: str = "", found: str = ""
    ) -> None:
        super().__init__(message, namespace=namespace)
        self.expected = expected
        self.found = found


class CodecMismatch(StateError):
    """The namespace was written with another codec, or another version of it, than is configured."""


class StateCorrupted(StateError):
    """Bytes in the store cannot be what Anchorbolt wrote."""
