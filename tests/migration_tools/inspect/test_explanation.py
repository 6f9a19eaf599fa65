"""What is said of a topology's state is what the next start does about it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.decision_log import RELEASED_SEQ, DecisionLog
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.cli.state.text import report_lines
from anchorbolt.errors import AnchorboltError, StateError
from anchorbolt.faults.points import FaultPoint
from anchorbolt.files import open_folder
from anchorbolt.migration_tools.entries import Codecs
from anchorbolt.migration_tools.topology_inspection import (
    TopologyReport,
    TopologySnapshot,
    explain,
    judge,
    read_topology,
)
from anchorbolt.serialization import JsonCodec
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.contract import Fence, NamespaceHead, Seal, StagedAttempt, StateProvider
from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider
from tests.migration_tools.conftest import ALL, HEADER, MSGPACK, TIMEOUT_S, RunWords, StartWords, killed_at

SEAL = Seal(1, 42)
A, B = "a" * 32, "b" * 32
N, M = "t:count-0", "t:count-1"
STAGED = StagedAttempt(txid=5, base=4, fence=Fence(1, 9), seal=SEAL)


Explained = Callable[[StateProvider], TopologyReport]

POINTS = """
    ROUND_BEGUN SLICE_STAGED STAGED SEALED TASK_PREPARED ROUND_ENDED
    DECIDED DECISION_COPIED NAMESPACE_COMMITTED NAMESPACES_COMMITTED COMMITTED WAVE_ENDED
"""


@pytest.fixture
def explained(name: str, tmp_path: Path) -> Explained:
    """Explain the word count over a store."""
    return lambda provider: explain(provider, name, name, MSGPACK, open_folder(str(tmp_path / "checkpoint")))


@pytest.mark.parametrize("point", [FaultPoint[name] for name in POINTS.split()])
def test_the_next_start_does_what_was_said(
    point: FaultPoint,
    sqlite_provider: SqliteStateProvider,
    name: str,
    explained: Explained,
    start_words: StartWords,
    run_words: RunWords,
) -> None:
    with killed_at(point, txid=1):
        spout = FeederSpout(["sentence"], [[("a b c d e",)], [("b c d e f g",)]])
        start_words(sqlite_provider, spout, until_empty=True).await_termination(TIMEOUT_S)
    before = read_topology(sqlite_provider, name, name)
    report = explained(sqlite_provider)
    assert read_topology(sqlite_provider, name, name) == before, "explain changed something"
    assert not report.refusals
    recovery = run_words(sqlite_provider).recovery
    assert report.action == recovery.action
    blocks = [each for each in report.namespaces if each.next_start]
    if point is FaultPoint.DECIDED:
        assert blocks
        assert all(
            f"txid 1 is decided but not committed in {each.namespace}: the next start commits it" in each.next_start
            for each in blocks
        )
        assert all(each.namespace in report.blocking[0] for each in blocks)
    if point is FaultPoint.SEALED:
        assert "is sealed in" in report.blocking[0]
        assert "the next start drops" in report.next_start[0]


@pytest.mark.parametrize("store", [each for each in ALL if each != "memory"], indirect=True)
def test_a_topology_is_explained_on_every_backend(
    store: StateProvider, name: str, run_words: RunWords, explained: Explained
) -> None:
    run_words(store, "a b a", "c")
    report = explained(store)
    assert report.action == "resumed"
    assert report.snapshot.stored is not None
    assert report.snapshot.stored.txid == 1
    assert not report.blocking
    assert [each.namespace for each in report.namespaces] == [f"{name}:count-0", f"{name}:count-1"]
    assert sum(each.keys or 0 for each in report.namespaces) == 3
    assert sum(each.size or 0 for each in report.namespaces) == 9  # each key two bytes, each count one
    assert any("has ended and released the fence" in note for note in report.notes)


def test_a_driver_that_released_its_fence_can_write_no_more(sqlite_provider: SqliteStateProvider) -> None:
    with closing(sqlite_provider.open("t:$checkpointspout-0")) as storage:
        log = DecisionLog(storage)
        fence = log.claim()
        log.release()
        assert storage.head().fence == (fence.generation, RELEASED_SEQ)
        with pytest.raises(StateError):
            storage.write(Fence(fence.generation, 10**6), {b"k": b"v"}, "msgpack")
        assert log.claim() == (fence.generation + 1, 0)


def test_a_topology_that_is_not_there_is_said_with_those_that_are(
    sqlite_provider: SqliteStateProvider, name: str, run_words: RunWords, tmp_path: Path
) -> None:
    run_words(sqlite_provider, "a")
    for prefix in ("other", ""):
        with pytest.raises(StateError, match=rf"no state of topology 'other'.*{name}"):
            explain(sqlite_provider, "other", prefix, MSGPACK, open_folder(str(tmp_path)))


def test_a_store_that_lost_everything_is_explained_by_the_copy(
    sqlite_provider: SqliteStateProvider, run_words: RunWords, explained: Explained, tmp_path: Path
) -> None:
    run_words(sqlite_provider, "a b")
    report = explained(SqliteStateProvider(str(tmp_path / "empty")))
    assert report.action == "refused"
    expected = "expected a decision record at txid 0 or later, found no decision record"
    assert any(expected in refusal for refusal in report.refusals)


RECORD = DecisionRecord(
    topology="t",
    state=CheckpointState(5, Phase.COMMITTED),
    batch_id=5,
    winners={N: Winner(A, 4, SEAL)},
    namespaces={N: Committed(5, A), M: Committed(2, B)},
    parallelism={"count": 2},
)
BEFORE = NamespaceHead(Fence(1, 9), 4, B, HEADER, {A: STAGED})
AFTER = NamespaceHead(Fence(1, 9), 5, A, HEADER)
HEAD_M = NamespaceHead(Fence(1, 9), 2, B, HEADER)


def snapshot(**changes: Any) -> TopologySnapshot:
    """A decision of txid 5 in which N went from 4 to 5, and M stayed at 2."""
    head = NamespaceHead(Fence(1, RELEASED_SEQ))
    whole = TopologySnapshot("t", "t:$checkpointspout-0", head, RECORD, heads={N: AFTER, M: HEAD_M})
    return replace(whole, **changes)


def refused(found: TopologySnapshot, codecs: Codecs = MSGPACK) -> str:
    report = judge(found, codecs, {})
    assert report.action == "refused"
    assert report.next_start == ("the next start is refused, and writes nothing",)
    return " ".join(report.refusals)


def test_a_store_that_lost_data_is_said_to_be_refused_and_what_is_missing() -> None:
    found = snapshot(heads={N: BEFORE, M: HEAD_M})
    text = refused(found)
    assert N in text
    assert f"expected txid 5 from attempt {A}, found txid 4 from attempt {B}" in text
    assert "Restore the store" in text
    assert [bool(each.refusal) for each in judge(found, MSGPACK, {}).namespaces] == [True, False]


def test_a_copy_ahead_of_the_store_is_said_to_be_refused() -> None:
    ahead = replace(RECORD, state=CheckpointState(6, Phase.COMMITTING))
    assert "expected a decision record at txid 6" in refused(snapshot(copied=ahead))
    assert "no decision record" in refused(snapshot(stored=None, copied=ahead))
    lost = judge(snapshot(stored=None, copied=RECORD), MSGPACK, {})
    assert not any("has the prefix, but" in note for note in lost.notes)


def test_other_reasons_to_refuse_are_those_of_a_start() -> None:
    assert "was written as" in refused(snapshot(), Codecs(JsonCodec(), JsonCodec()))
    assert "belongs to topology 't'" in refused(snapshot(topology="u"))
    assert "found generation 0" in refused(snapshot(record_head=NamespaceHead(Fence(0, 9))))
    of_query = replace(RECORD, query_id="q")
    assert "is a new one" in refused(snapshot(stored=of_query, query_id="", location="/x"))


@pytest.mark.parametrize(("query_id", "action"), [(None, "resumed"), ("other", "refused")])
def test_a_location_that_is_not_that_of_the_runs_is_the_likely_cause(query_id: str | None, action: str) -> None:
    of_query = replace(RECORD, query_id="q")
    report = judge(snapshot(stored=of_query, query_id=query_id, location="/x"), MSGPACK, {})
    assert report.action == action
    assert "/x" in report.wrong_location
    assert report_lines(report, "a store")[0].endswith(report.wrong_location)
    for record in (of_query, RECORD):
        assert not judge(snapshot(stored=record, query_id="q", location="/x"), MSGPACK, {}).wrong_location
    assert not judge(snapshot(query_id=None, location="/x"), MSGPACK, {}).wrong_location


def test_who_has_not_prepared_yet_is_said() -> None:
    preparing = replace(AFTER, attempts={B: replace(STAGED, txid=6, base=5)})
    report = judge(snapshot(heads={N: preparing, M: HEAD_M}), MSGPACK, {})
    assert report.blocking == (
        f"txid 6 waits for its decision: attempt {B} is sealed in {N}",
        f"nothing is staged in {M}: the task is still working, or has no updates",
    )
    assert report.action == "rolled back"


def test_strangers_and_custom_states_are_noted_and_not_judged() -> None:
    stranger = NamespaceHead(Fence(1, 1), 3, A, "else")
    custom = replace(AFTER, codec=CUSTOM_HEADER)
    heads = {N: custom, M: HEAD_M, "t:gone-0": stranger, "t:gone-1": NamespaceHead()}
    report = judge(snapshot(heads=heads, unreadable={"t:gone-1": "it lost its fence"}), MSGPACK, {})
    assert (report.action, report.namespaces[3].problem) == ("resumed", "it lost its fence")
    assert any(f"{N} belongs to a custom state" in note for note in report.notes)
    assert any("t:gone-0 has the prefix, but" in note for note in report.notes)


def test_a_fence_that_is_not_released_is_noted() -> None:
    report = judge(snapshot(record_head=NamespaceHead(Fence(3, 9))), MSGPACK, {})
    assert any("generation 3 holds the fence" in note for note in report.notes)


@pytest.mark.parametrize("damage", [b"\xc1", b""], ids=["no msgpack", "nothing"])
def test_a_damaged_record_is_reported_and_the_rest_still_explained(
    sqlite_provider: SqliteStateProvider, name: str, run_words: RunWords, explained: Explained, damage: bytes
) -> None:
    run_words(sqlite_provider, "a b")
    with closing(sqlite_provider.open(f"{name}:$checkpointspout-0")) as storage:
        fence = storage.claim()
        [[(key, _)]] = list(storage.scan())
        storage.write(fence, {key: damage}, "keys msgpack/1, values msgpack/1")
    report = explained(sqlite_provider)
    assert "cannot be read" in report.refusals[0]
    assert len(report.namespaces) == 2
    with pytest.raises(AnchorboltError, match="cannot be read"):
        run_words(sqlite_provider)
