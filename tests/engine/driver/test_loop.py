"""The wave loop over sources of a test: when a wave runs, what it is made of, and how a run ends."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.checkpoint.coordinator import CommittedWave
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.ports import Batch
from anchorbolt.engine.driver.loop import Step, WaveLoop
from anchorbolt.engine.sources.source import Source
from anchorbolt.errors import Fenced, WaveFailed

DEADLINE_S = 30


class Calls(Source):
    """Has `waiting` batches for waves, and notes which calls are made to it."""

    def __init__(self, name: str = "source", waiting: int = 0, log: list[str] | None = None) -> None:
        self.name = name
        self.waiting = waiting
        self.log: list[str] = [] if log is None else log
        self.in_flight = False  # as if a message was
        self.failure: BaseException | None = None
        self.wake: Callable[[], None]

    def note(self, call: str) -> None:
        self.log.append(f"{self.name} {call}")

    def open(self, checkpoints: Any, wake: Callable[[], None], *, until_empty: bool) -> None:
        self.note("open")
        self.wake = wake

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def poll(self) -> bool:
        return self.waiting > 0

    @property
    def is_empty(self) -> bool:
        return not self.waiting

    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        self.note("next")
        return batch

    def settle(self, wave: CommittedWave, report: Any) -> Any:
        self.note("settle")
        self.waiting = max(0, self.waiting - 1)
        return report

    def end_wave(self, txid: int) -> None:
        self.note("end")

    def pause(self) -> None:
        self.note("pause")

    def resume(self) -> None:
        self.note("resume")

    def drain(self) -> None:
        self.note("drain")

    def has_run_out(self, held_s: float) -> bool:
        return not self.in_flight

    def close(self, failure: BaseException | None) -> BaseException | None:
        self.note("close")
        return failure

    def finished(self) -> None:
        self.note("finished")


class Query(Calls):
    def next(self, record: DecisionRecord, batch: Batch | None) -> Batch | None:
        super().next(record, batch)
        return Batch("query", record.batch_id + 1) if self.waiting else batch


class FakeSpout:
    """Commits each wave at once, unless it has an error."""

    def __init__(self) -> None:
        self.record = DecisionRecord()
        self.batches: list[Batch] = []
        self.error: Exception | None = None
        self.overtaken = 0  # calls of `check_not_overtaken`

    def run_wave(self, batch: Batch) -> Any:
        if self.error is not None:
            raise self.error
        self.batches.append(batch)
        self.record = SimpleNamespace(  # type: ignore[assignment]
            txid=self.record.txid + 1, query_id=batch.query_id, batch_id=batch.batch_id, offsets_digest=""
        )
        return Mock(reports=(), round_failures=(), dead_letters=(), round_ms=0.0, txid=self.record.txid)

    def check_not_overtaken(self) -> None:
        self.overtaken += 1


def opened(*sources: Source, until_empty: bool = False) -> tuple[WaveLoop, Any]:
    loop, spout = WaveLoop(sources), FakeSpout()
    loop.open(spout, lambda *_: None, until_empty=until_empty)  # type: ignore[arg-type]
    return loop, spout


def test_no_wave_runs_without_a_source_that_needs_one() -> None:
    source = Calls()
    loop, spout = opened(source)
    assert loop.step() is Step.WAITS
    assert (spout.batches, source.log) == ([], ["source open"])


def test_all_sources_are_part_of_a_wave_that_one_of_them_needs() -> None:
    log: list[str] = []
    loop, _ = opened(Calls("a", log=log), Calls("b", 1, log))
    log.clear()
    assert loop.step() is Step.RAN
    assert log == ["a next", "b next", "a settle", "b settle", "a end", "b end"]
    assert loop.step() is Step.WAITS


def test_a_wave_without_a_batch_belongs_to_the_last_one_again() -> None:
    query, other = Query("query", 1), Calls("other")
    loop, spout = opened(query, other)
    loop.step()
    other.waiting = 1
    loop.step()
    assert spout.batches == [Batch("query", 0), Batch("query", 0)]


def test_a_run_until_empty_ends_once_all_sources_are_empty_and_no_newer_driver_has_come() -> None:
    log: list[str] = []
    loop, spout = opened(Calls("a", 2, log), Calls("b", 1, log), until_empty=True)
    log.clear()
    assert loop.run() is None
    assert len(spout.batches) == 2
    assert spout.overtaken == 1
    assert log[-6:] == ["a drain", "b drain", "a close", "b close", "a finished", "b finished"]


def test_a_source_that_is_over_ends_a_run_that_would_go_on() -> None:
    over = Calls("over")
    over.is_over = True
    loop, spout = opened(over, Calls("other", 1))
    assert loop.run() is None
    assert len(spout.batches) == 1, "what the other source had"


def test_a_wave_that_failed_is_not_settled_and_no_other_follows() -> None:
    source = Calls(waiting=2)
    loop, spout = opened(source)
    spout.error = WaveFailed("failed", txid=0)
    assert loop.run() is spout.error
    assert source.log == ["source open", "source next", "source end", "source close"]


def test_the_error_of_a_source_ends_the_run_at_once_although_something_is_in_flight() -> None:
    log: list[str] = []
    query, spouts = Calls("query", log=log), Calls("spouts", log=log)
    spouts.in_flight = True
    query.failure = WaveFailed("the query is gone", txid=-1)
    loop, _ = opened(query, spouts)
    assert loop.run() is query.failure
    assert log[-2:] == ["query close", "spouts close"]


def test_all_sources_are_closed_if_one_cannot_be_opened() -> None:
    class Refuses(Calls):
        def open(self, checkpoints: Any, wake: Callable[[], None], *, until_empty: bool) -> None:
            raise Fenced("another driver has come")

    log: list[str] = []
    with pytest.raises(Fenced):
        opened(Refuses("a", log=log), Calls("b", log=log))
    assert log == ["b open", "a close", "b close"]


def test_a_source_that_fails_to_close_keeps_no_other_from_it() -> None:
    class Breaks(Calls):
        def close(self, failure: BaseException | None) -> BaseException | None:
            raise OSError("in close")

    log: list[str] = []
    loop, _ = opened(Breaks("a", log=log), Calls("b", log=log), until_empty=True)
    assert isinstance(loop.run(), OSError)
    assert "b close" in log
    assert "b finished" not in log


def test_the_error_of_a_wave_is_explained_by_the_source_that_knows_its_cause() -> None:
    class Knows(Calls):
        def explained(self, error: BaseException) -> BaseException:
            return WaveFailed(f"a file is missing, so: {error}", txid=0)

    loop, spout = opened(Knows(waiting=1))
    spout.error = WaveFailed("failed", txid=0)
    failure = loop.run()
    assert isinstance(failure, WaveFailed)
    assert failure.__cause__ is spout.error


def test_in_a_pause_waves_run_until_nothing_is_in_flight_and_then_none_until_it_ends() -> None:
    source = Calls(waiting=1)
    source.in_flight = True
    loop, spout = opened(source)
    loop.pause()
    assert loop.step() is Step.RAN
    assert not loop.wait_until_paused(0)
    source.in_flight, source.waiting = False, 1
    assert loop.step() is Step.WAITS
    assert loop.wait_until_paused(0)
    assert len(spout.batches) == 1
    loop.resume()
    assert loop.step() is Step.RAN


def test_the_end_of_a_run_waits_for_what_is_in_flight() -> None:
    source = Calls(waiting=1)
    source.in_flight = True
    loop, spout = opened(source)
    assert loop.stop()
    assert loop.step() is Step.RAN
    assert loop.step() is not Step.ENDED
    source.in_flight = False
    assert loop.step() is Step.ENDED
    assert len(spout.batches) == 1


def test_an_error_at_the_end_of_a_wave_does_not_hide_why_it_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    class Breaks(Calls):
        def end_wave(self, txid: int) -> None:
            raise OSError("at the end")

    loop, spout = opened(Breaks(waiting=1))
    spout.error = WaveFailed("failed", txid=0)
    assert loop.run() is spout.error
    assert "at the end" in caplog.text


def test_the_listener_of_a_wave_is_called_after_all_sources_have_ended_it() -> None:
    source = Calls(waiting=1)
    loop = WaveLoop([source])
    spout: Any = FakeSpout()
    loop.open(spout, lambda *_: source.note("told"), until_empty=False)
    loop.step()
    assert source.log[-3:] == ["source settle", "source end", "source told"]


def test_a_run_that_waits_is_woken() -> None:
    source = Calls()
    loop, _ = opened(source, until_empty=True)
    source.waiting = 1
    ended = threading.Thread(target=loop.run, daemon=True)
    ended.start()
    source.wake()
    ended.join(DEADLINE_S)
    assert not ended.is_alive()
    assert "source settle" in source.log
