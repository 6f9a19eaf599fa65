"""Removes the remains of a streaming query of Spark from this process and from the JVM.

For each query with `foreachBatch`, py4j keeps a connection and a thread in Python. Spark keeps the function and its
error, with all that they refer to, until the JVM has collected the query. Their own references to Java objects prevent
that. Besides, each session that ever had a query leaves a listener on the event bus.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from py4j.java_gateway import quiet_shutdown  # type: ignore[import-untyped]
from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("anchorbolt.engine")

_EVENTS_MS = 2000


class BatchCallback:
    """The function for `foreachBatch`. After `release` it refers to nothing, and its connection is closed."""

    def __init__(self, session: SparkSession, function: Callable[[DataFrame, int], None]) -> None:
        client = session.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
        self._called_by_java: dict[str, object] = client.gateway_property.pool.dict
        # Without pinned threads (PYSPARK_PIN_THREAD=false) connections belong to no thread and are reused.
        self._connection_here = getattr(client, "get_thread_connection", lambda: None)
        self._function: Callable[[DataFrame, int], None] | None = function
        self._connection: object = None  # of the query's thread

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self._connection = self._connection_here()
        assert self._function is not None, "the query has ended"
        self._function(frame, batch_id)

    def release(self) -> None:
        """Forget the function and its error, and close the connection: the query has ended."""
        self._function = None
        for each in list(self._called_by_java.values()):
            if getattr(each, "func", None) is self:  # PySpark's own object, which calls this one and keeps its error
                vars(each).pop("error", None)
        connection, self._connection = self._connection, None
        # The thread that reads from the connection then closes it.
        quiet_shutdown(getattr(connection, "socket", None))


def forget_listeners(session: SparkSession) -> None:
    """Remove the listener of the session's streaming queries. The session must not run a query any more.

    Spark has no method for this, and the listener is private.
    """
    if session.sparkContext._jsc is None:
        return
    try:
        bus = session.sparkContext._jsc.sc().listenerBus()
        with suppress(Py4JJavaError):  # a TimeoutException
            bus.waitUntilEmpty(_EVENTS_MS)  # the last events tell Spark's UI that the query has ended
        manager = session._jsparkSession.streams()
        field = manager.getClass().getDeclaredField("listenerBus")
        field.setAccessible(True)
        bus.removeListener(field.get(manager))
    except (Py4JError, OSError) as error:  # another version of Spark, or the JVM is gone
        _log.debug("the listener of the session was not removed: %s", error)
