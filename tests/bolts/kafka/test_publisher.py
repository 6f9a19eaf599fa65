"""A driver's steps against a Kafka in memory: each wave once, whatever fails between two of them; and the marker."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorbolt.bolts.kafka import publisher
from anchorbolt.bolts.kafka.marker import Marker, check_history, digest_of, is_sent
from anchorbolt.bolts.kafka.messages import outbox_schema
from anchorbolt.bolts.kafka.publisher import messages_of
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.errors import FaultInjected, Fenced, SinkUnavailable, StateRegressed
from anchorbolt.files import Folder, open_folder
from tests.bolts.kafka.fake_kafka import Driver, FakeKafka, decided, fail


class Outbox:
    """The outbox on a file system that fails some times, when a file is opened or read."""

    def __init__(self, failures: int, *, while_reading: bool) -> None:
        self.failures = failures
        self.while_reading = while_reading

    def __call__(self, location: str) -> Folder:
        folder: Any = open_folder(location)
        opened: Callable[[str], BinaryIO] = folder.open

        def open_file(name: str) -> BinaryIO:
            if not self.failures:
                return opened(name)
            self.failures -= 1
            if self.while_reading:
                return cast(BinaryIO, _Broken())
            raise OSError("could not obtain block")

        folder.open = open_file
        return cast(Folder, folder)


class _Broken(io.RawIOBase):
    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        raise OSError("503 slow down")


@pytest.mark.parametrize("while_reading", [False, True], ids=["open", "read"])
def test_an_outbox_that_cannot_be_read_for_a_moment_delays_the_wave(tmp_path: Path, while_reading: bool) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka, open_at=Outbox(2, while_reading=while_reading))
    driver.publish(1, decided(tmp_path, "a", "b"))
    assert kafka.sent == ["a", "b"]


def test_an_outbox_that_stays_unreadable_ends_the_run_once_the_patience_is_used_up(tmp_path: Path) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka, open_at=Outbox(1000, while_reading=False), patience_s=0.2)
    files = decided(tmp_path, "a")
    with pytest.raises(SinkUnavailable) as unavailable:
        driver.publish(1, files)
    assert files[0].path in unavailable.value.message
    assert kafka.sent == []


def test_an_outbox_file_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    driver = Driver(FakeKafka(), patience_s=60)
    files = decided(tmp_path, "a")
    Path(files[0].path).unlink()
    with pytest.raises(StateRegressed) as lost:
        driver.publish(1, files)
    assert lost.value.expected == files[0].path


def test_an_overtaken_driver_that_begins_late_is_fenced_and_gets_no_advice_to_delete_the_marker() -> None:
    kafka = FakeKafka(Marker(10))  # its successor has sent ten waves
    overtaken = Driver(kafka, begins=False)
    kafka.at("init", overtaken.overtake)
    with pytest.raises(Fenced):
        overtaken.begin()
    with pytest.raises(StateRegressed):
        Driver(kafka)  # but a driver that has the claim is told that its state is old


def test_a_run_whose_marker_expired_while_it_was_idle_sends_its_next_wave_once(tmp_path: Path) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka)
    kafka.expire()
    driver.publish(1, decided(tmp_path, "once"))
    assert kafka.sent == ["once"]
    driver.publish(1, decided(tmp_path, "once"))
    assert kafka.sent == ["once"]


def test_an_expired_marker_is_restored_before_the_messages_are_sent_so_that_the_next_driver_finds_it(
    tmp_path: Path,
) -> None:
    kafka, files = FakeKafka(), decided(tmp_path, "once")
    driver = Driver(kafka)
    kafka.expire()
    kafka.at("commit", lambda: None, fail(FaultInjected("the driver dies")))  # the marker's commit, then the wave's
    with pytest.raises(FaultInjected):
        driver.publish(1, files)
    successor = Driver(kafka, txid=1, pending=files)
    successor.publish(1, files)
    assert kafka.sent == ["once"]


@pytest.mark.parametrize("step", ["commit", "committed"])
def test_a_marker_that_is_lost_while_a_commit_is_unanswered_stops_the_run_and_sends_nothing_again(
    tmp_path: Path, step: str
) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka)
    kafka.at(step, fail())
    kafka.at("init", kafka.expire)
    with pytest.raises(StateRegressed):
        driver.publish(1, decided(tmp_path, "once"))
    assert kafka.sent == ([] if step == "commit" else ["once"])


def test_a_marker_that_is_lost_before_the_commit_of_a_wave_that_failed_is_restored(tmp_path: Path) -> None:
    kafka = FakeKafka()
    driver = Driver(kafka)
    kafka.at("send", fail())
    kafka.at("init", kafka.expire)
    driver.publish(1, decided(tmp_path, "once"))
    assert kafka.sent == ["once"]


def test_a_driver_that_was_overtaken_restores_no_marker_although_it_had_the_claim_when_it_connected(
    tmp_path: Path,
) -> None:
    kafka, files = FakeKafka(), decided(tmp_path, "once")
    older = Driver(kafka)
    kafka.expire()

    def overtake() -> None:
        """The older driver sleeps before it connects. A successor sends the wave, and a week passes."""
        older.overtake()
        Driver(kafka, txid=1, pending=files).publish(1, files)
        kafka.expire()

    kafka.marker = Marker(1)
    kafka.at("init", overtake)
    with pytest.raises(Fenced):
        older.publish(1, files)
    assert kafka.sent == ["once"]
    assert not kafka.marker


def test_a_driver_that_was_overtaken_while_it_connected_sends_nothing_whatever_the_marker(tmp_path: Path) -> None:
    kafka = FakeKafka()
    older = Driver(kafka)
    kafka.owner = None  # so that it connects again
    kafka.at("init", older.overtake)
    with pytest.raises(Fenced):
        older.publish(1, decided(tmp_path, "once"))
    assert kafka.sent == []


def test_the_marker_is_written_again_while_no_wave_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher, "REFRESH_S", 0.01)
    kafka, written = FakeKafka(Marker(1, "digest")), threading.Event()
    kafka.at("committed", written.set)
    driver = Driver(kafka)
    assert written.wait(30)
    driver.end_run()
    assert kafka.marker == Marker(1, "digest")


def test_a_marker_that_cannot_be_written_again_for_a_moment_is_written_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher, "REFRESH_S", 0.01)
    kafka, written = FakeKafka(Marker(1)), threading.Event()
    kafka.at("send", fail(), kafka.expire)
    kafka.at("committed", written.set)
    driver = Driver(kafka)
    assert written.wait(30)
    driver.end_run()
    assert kafka.marker == Marker(1)


def test_a_driver_that_was_overtaken_while_it_is_idle_leaves_its_successors_marker_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = FakeKafka(Marker(1))
    older = Driver(kafka)
    older.overtake()
    successor = Driver(kafka)
    before = kafka.owner
    monkeypatch.setattr(publisher, "REFRESH_S", 0)  # (their threads still wait for an hour)
    for _ in range(2):
        older.refresh()
    assert kafka.owner is before
    for driver in (older, successor):
        driver.end_run()


FILES = [SinkFile("out", task, f"/x/1-1/out-{task}-{task:032x}.parquet", 5, b"") for task in range(2)]
DIGEST = digest_of(FILES)


def test_the_digest_depends_on_the_winning_attempts_alone() -> None:
    assert digest_of(FILES[::-1]) == DIGEST
    assert digest_of([replace(file, path=file.path.replace("/x/", "/moved/")) for file in FILES]) == DIGEST
    assert digest_of([FILES[0], replace(FILES[1], path="/x/1-1/out-1-other.parquet")]) != DIGEST
    assert digest_of(FILES[:1]) != DIGEST


@pytest.mark.parametrize(
    ("marker", "sent"), [(Marker(8, DIGEST), True), (Marker(7, "other"), False), (Marker(7), False), (Marker(0), False)]
)
def test_a_wave_is_sent_if_the_marker_is_of_it(marker: Marker, sent: bool) -> None:
    assert is_sent(marker, 7, DIGEST) is sent


@pytest.mark.parametrize("marker", [Marker(8, "other"), Marker(8), Marker(9, DIGEST)])
def test_a_marker_of_other_rows_or_of_a_later_wave_is_refused(marker: Marker) -> None:
    with pytest.raises(StateRegressed) as refused:
        is_sent(marker, 7, DIGEST)
    assert refused.value.expected
    assert refused.value.found


def test_a_committed_state_may_not_be_behind_the_marker() -> None:
    check_history(Marker(8, DIGEST), 7)
    check_history(Marker(0), -1)
    with pytest.raises(StateRegressed):
        check_history(Marker(9, DIGEST), 7)


GROUPS, ROWS, VALUE = 60, 1000, b"x" * 500
FILE_BYTES = GROUPS * ROWS * len(VALUE)


def test_messages_of_a_large_file_are_never_in_memory_all_at_once(tmp_path: Path) -> None:
    path, schema = tmp_path / "out-1.parquet", outbox_schema()
    columns = [["topic"] * ROWS, [None] * ROWS, [b"k"] * ROWS, [VALUE] * ROWS, [None] * ROWS]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="none") as writer:
        for _ in range(GROUPS):
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for count, message in enumerate(messages_of(3, [SinkFile("out", 1, str(path), GROUPS * ROWS, b"")]), 1):
        if count % ROWS == 0:
            most = max(most, pa.total_allocated_bytes() - before)
            assert message == ("topic", None, b"k", VALUE, None)
    assert count == GROUPS * ROWS
    assert most < FILE_BYTES / 10
