"""The parts of the engine of batches, one by one: flights, slots, hand-offs, producers, threads, the collector."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anchorbolt.checkpoint.ports import BatchTry, HandOff, Round
from anchorbolt.engine.task.emitter_task import Produced
from anchorbolt.errors import StateCorrupted, StateUnavailable, TopologyError, WaveFailed
from anchorbolt.files import open_folder
from anchorbolt.serialization import pack
from anchorbolt.state_backends.contract import Fence
from anchorbolt.streams.calls import Buffer
from anchorbolt.streams.columns import rows_of
from anchorbolt.streams.declaration import StreamDeclaration
from anchorbolt.transactional import BatchOutputCollector, TransactionAttempt
from anchorbolt.transactional.batches.background import Background, Cancellation
from anchorbolt.transactional.batches.hand_off import HandOffs, HandOffWriter, pickled, remove_hand_offs
from anchorbolt.transactional.batches.metadata import NO_BATCH, BatchMetadata, Slots, packed_metadata

FENCE = Fence(2, 7)


@given(
    st.builds(
        BatchMetadata,
        st.integers(0, 2**40),
        st.none() | st.binary(),
        st.integers(0, 9),
        st.dictionaries(st.integers(0, 9), st.binary()),
        st.frozensets(st.integers(0, 9)),
    )
)
def test_metadata_is_stored_as_it_is(metadata: BatchMetadata) -> None:
    assert BatchMetadata.decode(metadata.encode()) == metadata


@pytest.mark.parametrize("data", [b"", b"\xc1", pack(1), pack([1, 2]), pack([1, None, 0, [], []]), pack([None] * 5)])
def test_damaged_metadata_is_refused(data: bytes) -> None:
    with pytest.raises(StateCorrupted):
        BatchMetadata.decode(data)
    with pytest.raises(StateCorrupted):
        Slots({0: data}, 0)


def test_metadata_as_a_coordinator_gets_it() -> None:
    assert NO_BATCH.values() is None
    assert BatchMetadata(1, pack([1])).values() == [1]
    assert BatchMetadata(1, number_of_partitions=2, partitions={1: pack("x")}).values() == {1: "x"}
    assert packed_metadata("spout", None, pack(1), "hook") == pack(None)
    with pytest.raises(TopologyError) as raised:
        packed_metadata("spout", "1", pack(1), "hook")
    assert raised.value.component == "spout"


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_no_slot_of_a_batch_in_flight_is_used_for_another(runs: list[int], data: st.DataObject) -> None:
    stored: dict[int, bytes] = {}
    committed = 0
    for pending in runs:  # each is a run with so many batches in flight at most
        slots = Slots(stored, committed)
        assert {txid: batch.txid for txid, batch in slots.found.items()} == {txid: txid for txid in slots.found}
        for _ in range(data.draw(st.integers(0, 6), label="commits")):
            for txid in range(committed + 1, committed + 1 + data.draw(st.integers(1, pending), label="in flight")):
                kept = {BatchMetadata.decode(each).txid for each in stored.values()} - {txid}
                stored[slots.slot_of(txid, committed)] = BatchMetadata(txid).encode()
                assert {each for each in kept if each > committed} <= {
                    BatchMetadata.decode(each).txid for each in stored.values()
                }
            committed += 1
        assert len(stored) <= max(runs)


TASK = ("bolt", 0)
TRY = BatchTry(TransactionAttempt(4, 1), FENCE, 3)


def hand_offs_in(location: Path, key: bytes = b"key") -> HandOffs:
    return HandOffs(open_folder(str(location)), key)


def writer(location: Path) -> HandOffWriter:
    return hand_offs_in(location).writer(FENCE, TASK, "attempt")


def only_file(location: Path) -> Path:
    [path] = (path for path in location.rglob("*") if path.is_file())
    return path


def test_blobs_are_handed_off_in_their_order(tmp_path: Path) -> None:
    writing = writer(tmp_path)
    blobs = [b"one", b"", b"x" * 100_000]
    for blob in blobs:
        writing.write_blob(blob)
    hand_off = writing.close_blobs()
    assert hand_off == HandOff("attempt", holds_instance=False)
    assert list(hand_offs_in(tmp_path).read_blobs(TRY, TASK, hand_off)) == blobs
    path = only_file(tmp_path)
    kept = path.read_bytes()
    for changed in (b"", kept[:3], kept[:-1], kept[:-16], kept + b"z", kept.replace(b"one", b"two")):
        path.write_bytes(changed)
        with pytest.raises(WaveFailed) as raised:
            list(hand_offs_in(tmp_path).read_blobs(TRY, TASK, hand_off))
        assert raised.value.txid == 4
    path.write_bytes(kept)
    remove_hand_offs(open_folder(str(tmp_path)), FENCE)
    with pytest.raises(WaveFailed):
        list(hand_offs_in(tmp_path).read_blobs(TRY, TASK, hand_off))


def test_a_task_without_input_hands_nothing_off(tmp_path: Path) -> None:
    assert writer(tmp_path).close_blobs() is None
    assert list(tmp_path.rglob("*")) == []
    abandoned = writer(tmp_path)
    abandoned.write_blob(b"x")
    abandoned.abandon()
    abandoned.abandon()


def test_an_instance_is_handed_off_without_the_objects_of_the_engine(tmp_path: Path) -> None:
    own, other = threading.Lock(), threading.Lock()  # neither can be pickled
    hand_off = writer(tmp_path).write_instance(pickled({"own": own, "count": 3}, own))
    assert hand_off.holds_instance
    assert hand_offs_in(tmp_path).read_instance(TRY, TASK, hand_off, other) == {"own": other, "count": 3}
    with pytest.raises(TypeError):
        pickled(own)


class Unpickled(Exception):
    def __reduce__(self) -> Any:
        return _raise, ()


def _raise() -> None:
    raise Unpickled


@pytest.mark.parametrize("place", ["another key", "another task", "another try", "without a digest"])
def test_nothing_is_unpickled_that_the_tasks_own_attempt_has_not_written(tmp_path: Path, place: str) -> None:
    hand_off = writer(tmp_path).write_instance(pickled(3))
    path, elsewhere = only_file(tmp_path), tmp_path / "elsewhere"
    key = b"another" if place == "another key" else b"key"
    task = ("bolt", 1) if place == "another task" else TASK
    fence = Fence(FENCE.generation, FENCE.seq + 1) if place == "another try" else FENCE
    hand_offs_in(elsewhere, key).writer(fence, task, "attempt").write_instance(pickled(Unpickled()))
    found = only_file(elsewhere).read_bytes()
    path.write_bytes(pickled(Unpickled()) if place == "without a digest" else found)
    with pytest.raises(WaveFailed):
        hand_offs_in(tmp_path).read_instance(TRY, TASK, hand_off)


def test_a_hand_off_that_cannot_be_written_names_its_place(tmp_path: Path) -> None:
    (tmp_path / "anchorbolt").write_text("a file in the way")
    with pytest.raises(StateUnavailable) as raised:
        writer(tmp_path).write_blob(b"x")
    assert str(tmp_path) in raised.value.message


def test_what_is_produced_comes_in_order_and_then_its_error() -> None:
    def produce(put: Callable[[int], None]) -> None:
        for number in range(100):
            put(number)
        raise SystemExit(3)

    taken: list[int] = []
    with pytest.raises(SystemExit):
        taken.extend(Produced(produce, 2))
    assert list(Produced(lambda put: None, 1)) == []
    iterator = iter(Produced(produce, 2))
    assert [next(iterator) for _ in range(5)] == [0, 1, 2, 3, 4]


def test_a_producer_whose_items_nobody_takes_any_more_ends() -> None:
    ended = threading.Event()

    def produce(put: Callable[[int], None]) -> None:
        try:
            while True:
                try:
                    put(1)
                except Exception:
                    continue
        finally:
            ended.set()

    items: Any = iter(Produced(produce, 2))
    assert next(items) == 1
    assert not ended.is_set()
    items.close()
    assert ended.wait(10)


def test_a_cancellation_calls_each_callback_once() -> None:
    called: list[str] = []
    cancellation = Cancellation()
    cancellation.call(lambda: called.append("before"))
    cancellation.set()
    cancellation.set()
    cancellation.call(lambda: called.append("at once"))
    assert called == ["before", "at once"]
    ended = Cancellation()
    ended.call(lambda: called.append("never"))
    ended.clear()
    ended.set()
    assert called == ["before", "at once"]


def test_a_stuck_phase_does_not_hold_up_the_next_one() -> None:
    release, ended = threading.Event(), threading.Semaphore(0)

    def run(current: Round, cancellation: Cancellation) -> list[Any]:
        if current.txid == 1:
            assert release.wait(30)
            raise WaveFailed("it was given up", txid=1)
        return [current.txid]

    background = Background(run)
    stuck = background.start(Round(1, FENCE), ended.release)
    stuck.cancel()
    others = [background.start(Round(txid, FENCE), ended.release) for txid in (2, 3)]
    for _ in others:
        assert ended.acquire(timeout=30)
    reports: list[Any] = [each.reports() for each in others]
    assert reports == [[2], [3]]
    background.close(timeout_s=0)
    was_ended = stuck.is_ended
    release.set()
    assert ended.acquire(timeout=30)
    assert [was_ended, stuck.is_ended] == [False, True]
    with pytest.raises(WaveFailed):
        stuck.reports()
    background.close()


def test_the_collector_of_a_batch_takes_the_batchs_tuples_only() -> None:
    sent: list[Any] = []

    def flush(stream: str, buffer: Buffer) -> int:
        rows = rows_of(buffer.size, buffer.columns)
        sent.extend(zip(buffer.tasks, rows, strict=True) if buffer.tasks else rows)
        return 512

    streams = {"default": StreamDeclaration(("tx", "word")), "to": StreamDeclaration(("tx",), direct=True)}
    collector = BatchOutputCollector("bolt", streams, flush)
    attempt = collector.attempt = TransactionAttempt(3, 9)
    collector.emit((attempt, "a"), anchors=None)
    collector.emit([TransactionAttempt(3, 9), "b"])
    collector.emit_direct(5, (attempt,), stream="to")
    with pytest.raises(TopologyError):
        collector.refuse_emitted("prepare")
    collector.flush()
    with pytest.raises(TopologyError):
        collector.refuse_emitted("prepare")
    assert sent == [(attempt, "a"), (attempt, "b"), (5, (attempt,))]
    for stream, row in (("default", (3, "a")), ("default", (attempt,)), ("to", ((3, 8),)), ("to", ())):
        collector.begin()
        collector.refuse_emitted("prepare")
        collector.emit(row) if stream == "default" else collector.emit_direct(5, row, stream="to")
        with pytest.raises(TopologyError) as raised:
            collector.flush()
        assert raised.value.component == "bolt"
        assert "attempt" in raised.value.message
