"""The error that ends a run if both its wave and Spark's streaming query fail."""

import threading
from unittest.mock import MagicMock, Mock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException

from anchorbolt.engine.spark.query import WaveQuery
from anchorbolt.errors import BoltError, Fenced, QueryChanged, WaveFailed

HOOKS = WaveFailed("the hooks of txid 1 could not be run: Connection refused", txid=1)
REFUSED = ConnectionRefusedError(111, "Connection refused")
NETWORK = Py4JNetworkError("Error while sending or receiving")
FENCED = Fenced("another driver runs this topology")
RAISED = BoltError("it raised", component="count", task_index=0, tuple_text=None, user_traceback="")
WRAPPED = StreamingQueryException("An exception was raised by the Python Proxy")


def started(spout: Mock, ends_with: Exception, folder: Mock | None = None) -> WaveQuery:
    """Return a started query that ends with an error."""
    plan = Mock(**{"graph.stream_spouts": ["lines"]})
    query = WaveQuery(plan, folder or Mock(), MagicMock(), Mock(), Mock())
    query.start(spout, Mock(), until_empty=False)
    query.query = Mock()
    query.query.awaitTermination.side_effect = ends_with
    return query


def ended_by(of_the_wave: BaseException, of_the_query: Exception) -> BaseException | None:
    """Return what a run ended by whose wave raised one error and whose streaming query another one."""
    spout = Mock(must_recover=False)
    spout.bind_query.side_effect = of_the_wave
    query = started(spout, of_the_query)
    with pytest.raises(type(of_the_wave)):
        query._on_batch(Mock(), 0)
    return query.wait()


@pytest.mark.parametrize("of_the_wave", [HOOKS, REFUSED, NETWORK], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("of_the_query", [REFUSED, NETWORK], ids=lambda error: type(error).__name__)
def test_a_wave_that_could_not_reach_java_is_not_blamed_where_java_is_gone(
    of_the_wave: Exception, of_the_query: Exception
) -> None:
    failure = ended_by(of_the_wave, of_the_query)
    assert isinstance(failure, WaveFailed)
    assert "Spark's Java process is gone" in failure.message
    assert failure.__cause__ is of_the_query


@pytest.mark.parametrize(
    ("of_the_wave", "of_the_query"), [(FENCED, NETWORK), (RAISED, REFUSED), (HOOKS, WRAPPED), (FENCED, WRAPPED)]
)
def test_a_wave_that_knows_why_it_failed_is_believed(of_the_wave: Exception, of_the_query: Exception) -> None:
    assert ended_by(of_the_wave, of_the_query) is of_the_wave


@pytest.mark.parametrize(
    ("said", "exists", "means"),
    [
        (
            "assertion failed: There are [1] sources in the checkpoint offsets and now there are [2] sources",
            True,
            "1 source,",
        ),
        (
            "Failed to read log file file:/x/offsets/2. Incomplete log file SQLSTATE: XXKST",
            True,
            "file:/x/offsets/2 of the",
        ),
        ("java.io.FileNotFoundException: x", False, "deleted or moved"),
        ("something else === Streaming Query === its plan", True, "something else"),
    ],
)
def test_what_changed_at_the_checkpoint_location_is_said(said: str, exists: bool, means: str) -> None:
    folder = Mock(location="/x")
    folder.exists.return_value = exists
    failure = started(Mock(), StreamingQueryException(said), folder).wait()
    assert isinstance(failure, QueryChanged if "source" in means else WaveFailed)
    assert means in failure.message
    assert "assertion" not in failure.message
    assert "plan" not in failure.message


def test_the_spout_is_asked_who_took_over_only_after_the_wave_that_lost_java_has_ended() -> None:
    spout, begun, asked, order = Mock(must_recover=False), threading.Event(), threading.Event(), list[str]()

    def wave(query_id: str) -> None:
        begun.set()
        asked.wait(0.3)
        order.append("wave ended")
        raise NETWORK

    def ask() -> None:
        order.append("asked")
        asked.set()

    spout.bind_query.side_effect = wave
    spout.check_not_overtaken.side_effect = ask
    query = started(spout, NETWORK)

    def run_batch() -> None:
        with pytest.raises(Py4JNetworkError):
            query._on_batch(Mock(), 0)

    running = threading.Thread(target=run_batch)
    running.start()
    assert begun.wait(10)
    assert isinstance(query.wait(), WaveFailed)
    running.join(10)
    assert order == ["wave ended", "asked"]
