"""The streaming query as a source: what it hands over, and which error ends the run if both wave and query fail."""

import subprocess
import sys
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import StreamingQueryException

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine import WaveReport
from anchorbolt.engine.driver.loop import WaveLoop
from anchorbolt.engine.spark.query import QuerySource
from anchorbolt.errors import BoltError, Fenced, QueryChanged, WaveFailed
from tests.engine.spark.handing import Handed

HOOKS = WaveFailed("the hooks of txid 1 could not be run: Connection refused", txid=1)
REFUSED = ConnectionRefusedError(111, "Connection refused")
NETWORK = Py4JNetworkError("Error while sending or receiving")
FENCED = Fenced("another driver runs this topology")
RAISED = BoltError("it raised", component="count", task_index=0, tuple_text=None, user_traceback="")
WRAPPED = StreamingQueryException("An exception was raised by the Python Proxy")


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the Java process of other tests, whose end a query would wait for."""
    monkeypatch.setattr(SparkContext, "_gateway", None)


class Started:
    """A loop whose only source is a query that was started, and ends with an error: after its batch, if it has one."""

    def __init__(self, spout: Mock, ends_with: Exception, folder: Mock | None = None, *, with_batch: bool) -> None:
        stages: Any = MagicMock()
        self.query = QuerySource(
            Mock(**{"graph.stream_spouts": ["lines"]}),
            folder or Mock(**{"read.return_value": b"{}", "location": "/x"}),
            MagicMock(),
            stages,
            Mock(),
        )
        self._with_batch = with_batch
        self._ends_with = ends_with
        writer = stages.writeStream.foreachBatch.return_value.queryName.return_value.option.return_value
        started = writer.trigger.return_value.start.return_value
        started.lastProgress = None
        started.awaitTermination.side_effect = self._run_query
        self.loop = WaveLoop([self.query])
        self.loop.open(spout, Mock(), until_empty=False)

    def _run_query(self) -> None:
        if self._with_batch:
            handed = Handed(self.query)
            handed.join()
            assert handed.error is not None
        raise self._ends_with


def ended_by(of_the_wave: BaseException, of_the_query: Exception) -> BaseException | None:
    """Return what a run ended by whose wave raised one error and whose streaming query another one."""
    spout = Mock()
    spout.bind_query.side_effect = of_the_wave
    return Started(spout, of_the_query, with_batch=True).loop.run()


@pytest.mark.parametrize("of_the_wave", [HOOKS, REFUSED, NETWORK], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("of_the_query", [REFUSED, NETWORK], ids=lambda error: type(error).__name__)
def test_a_wave_that_could_not_reach_java_is_not_blamed_where_java_is_gone(
    of_the_wave: Exception, of_the_query: Exception
) -> None:
    failure = ended_by(of_the_wave, of_the_query)
    assert isinstance(failure, WaveFailed)
    assert "Spark's Java process is gone" in failure.message
    assert failure.__cause__ is of_the_query


def test_it_is_said_how_java_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(52)"]) as java:
        monkeypatch.setattr(SparkContext, "_gateway", Mock(proc=java))
        failure = ended_by(NETWORK, REFUSED)
    assert isinstance(failure, WaveFailed)
    assert "exit code 52" in failure.message


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
    failure = Started(Mock(), StreamingQueryException(said), folder, with_batch=False).loop.run()
    assert isinstance(failure, QueryChanged if "source" in means else WaveFailed)
    assert means in failure.message
    assert "assertion" not in failure.message
    assert "plan" not in failure.message


def test_a_newer_driver_that_has_taken_over_explains_why_the_query_ended() -> None:
    spout = Mock()
    spout.check_not_overtaken.side_effect = FENCED
    assert Started(spout, WRAPPED, with_batch=False).loop.run() is FENCED


def test_a_micro_batch_is_part_of_one_wave_and_the_query_goes_on_once_it_has_committed() -> None:
    query = Started(Mock(**{"is_committed.return_value": False}), NETWORK, with_batch=False).query
    handed = Handed(query)
    assert handed.is_polled()
    batch = query.next(DecisionRecord(), None)
    assert (batch is not None and batch.query_id, query.frame is not None) == ("query", True)
    query.settle(Mock(), WaveReport(txid=0, batch_id=0))
    query.end_wave(0)
    handed.join()
    assert (handed.error, query.frame) == (None, None)
    again = Handed(query, 1)
    assert not query.poll(), "waves without a micro-batch have their turn first"
    assert again.is_polled()


@pytest.mark.parametrize("failure", [KeyboardInterrupt(), FENCED])
def test_whatever_ends_the_run_an_exception_ends_the_thread_of_the_query(failure: BaseException) -> None:
    query = Started(Mock(**{"is_committed.return_value": False}), NETWORK, with_batch=False).query
    handed = Handed(query)
    assert handed.is_polled()
    assert query.close(failure) is failure
    handed.join()
    assert isinstance(handed.error, Exception), "py4j catches no other"
    assert str(failure) not in str(handed.error) or not str(failure), "Spark logs it"


def test_a_micro_batch_that_waits_in_a_pause_is_part_of_no_wave_and_is_refused_at_the_end() -> None:
    query = Started(Mock(**{"is_committed.return_value": False}), NETWORK, with_batch=False).query
    query.pause()
    handed = Handed(query)
    assert not query.poll()
    assert query.next(DecisionRecord(), None) is None
    query.drain()
    assert query.close(None) is None
    handed.join()
    assert handed.error is not None
