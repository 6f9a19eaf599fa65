"""Conformance: the steps of a transaction, in and out of order, repeated, and from several handles."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import NamedTuple

import pytest

from anchorbolt.errors import CodecMismatch, Fenced, StaleAttempt, StateRegressed
from anchorbolt.state_backends.contract import (
    NOTHING_COMMITTED,
    Fence,
    NamespaceHead,
    ReadPosition,
    Seal,
    StagedAttempt,
    StagedSlice,
    StateProvider,
    StateStorage,
)
from anchorbolt.testing.conformance.base import (
    CODEC,
    FIRST,
    ConformanceBase,
    committed,
    entries,
    new_attempt,
    refused,
    stage,
    stage_slice,
    staged,
)


class _Scene(NamedTuple):
    """A namespace at txid 5 with attempts over it, and the fence of the next call."""

    storage: StateStorage
    fence: Fence
    unsealed: str  # for txid 6, of the slices {k: 1} and {k: 2}
    seal: Seal  # fits `unsealed`
    sealed: str  # for txid 6
    again: str  # sealed, for txid 5

    def stage(
        self, attempt: str, number: int, updates: Mapping[bytes, bytes] | None = None, *, txid: int = 6, base: int = 5
    ) -> Seal:
        return stage_slice(self.storage, attempt, number, updates or {}, fence=self.fence, txid=txid, base=base)


_STALE_CALLS: dict[str, Callable[[_Scene], object]] = {
    "a first slice over no txid": lambda at: at.stage(new_attempt(), 0, base=NOTHING_COMMITTED),
    "a first slice over an earlier txid": lambda at: at.stage(new_attempt(), 0, base=4),
    "a first slice over a later txid": lambda at: at.stage(new_attempt(), 0, base=6),
    "a first slice that is not number 0": lambda at: at.stage(new_attempt(), 1),
    "a slice after a gap": lambda at: at.stage(at.unsealed, 3),
    "a slice before the latest": lambda at: at.stage(at.unsealed, 0, {b"k": b"1"}),
    "the latest slice with other updates": lambda at: at.stage(at.unsealed, 1, {b"k": b"other"}),
    "a slice for another txid": lambda at: at.stage(at.unsealed, 2, txid=7),
    "a slice over another txid": lambda at: at.stage(at.unsealed, 2, base=4),
    "a slice of a sealed attempt": lambda at: at.stage(at.sealed, 1),
    "a seal of an unknown attempt": lambda at: at.storage.seal(at.fence, new_attempt(), Seal(1, 0)),
    "a seal of other slices": lambda at: at.storage.seal(at.fence, at.unsealed, at.seal._replace(slices=3)),
    "a seal of other updates": lambda at: at.storage.seal(at.fence, at.unsealed, Seal(2, at.seal.checksum ^ 1)),
    "a seal of nothing": lambda at: at.storage.seal(at.fence, at.unsealed, Seal(0, 0)),
    "another seal of a sealed attempt": lambda at: at.storage.seal(at.fence, at.sealed, at.seal),
    "a commit without a seal": lambda at: at.storage.commit(at.fence, 6, at.unsealed),
    "a commit as another txid": lambda at: at.storage.commit(at.fence, 7, at.sealed),
    "a commit of a committed txid from another attempt": lambda at: at.storage.commit(at.fence, 5, at.again),
}


class StepConformance(ConformanceBase):
    """Stage, seal, commit, roll back."""

    @pytest.mark.parametrize("call", _STALE_CALLS)
    def test_a_stale_call_has_no_effect_even_with_a_higher_fence(self, storage: StateStorage, call: str) -> None:
        committed(storage, [(b"k", b"0")], txid=5)
        unsealed, seal = stage(storage, [(b"k", b"1")], [(b"k", b"2")], txid=6, base=5)
        sealed, again = (staged(storage, [(b"k", b"%d" % txid)], txid=txid, base=5) for txid in (6, 5))
        before = storage.head()
        for fence in (FIRST, Fence(9, 9)):
            error = refused(StaleAttempt, _STALE_CALLS[call], _Scene(storage, fence, unsealed, seal, sealed, again))
            assert error.namespace == storage.namespace
            assert storage.head() == before
            assert [entries(storage, attempt)[b"k"] for attempt in (None, unsealed, sealed)] == [b"0", b"2", b"6"]

    def test_what_is_staged_is_seen_only_under_its_attempt(self, storage: StateStorage) -> None:
        committed(storage, [(b"a", b"1"), (b"b", b"2")])
        attempt, _ = stage(storage, [(b"a", b"9"), (b"b", None), (b"c", b"")], txid=1, base=0)
        other, _ = stage(storage, [(b"a", b"7")], txid=1, base=0)
        keys = [b"a", b"b", b"c"]
        assert storage.get_many(keys) == [b"1", b"2", None]
        assert storage.get_many(keys, attempt) == [b"9", None, b""]
        assert storage.get_many(keys, other) == [b"7", b"2", None]
        assert storage.get_many(keys, new_attempt()) == [b"1", b"2", None]
        assert entries(storage) == {b"a": b"1", b"b": b"2"}
        assert entries(storage, attempt) == {b"a": b"9", b"c": b""}

    def test_a_read_is_refused_where_the_namespace_stands_elsewhere(self, storage: StateStorage) -> None:
        keys = [b"a", b"b"]
        nothing = ReadPosition()
        assert storage.get_many(keys, None, nothing) == [None, None]
        assert entries(storage, at=nothing) == {}
        winner = committed(storage, [(b"a", b"1")])
        here = ReadPosition(0, winner)
        assert storage.get_many(keys, None, here) == [b"1", None]
        assert entries(storage, at=here) == {b"a": b"1"}
        for elsewhere in (nothing, ReadPosition(1, winner), ReadPosition(0, new_attempt())):
            refused(StaleAttempt, storage.get_many, [], None, elsewhere)
            _refuse_reads(storage, None, elsewhere)
        assert entries(storage) == {b"a": b"1"}

    def test_a_read_under_an_attempt_is_refused_where_less_is_staged(self, storage: StateStorage) -> None:
        winner = committed(storage, [(b"a", b"1")])
        attempt, first = stage(storage, [(b"b", b"2")], txid=1, base=0)
        second = stage_slice(storage, attempt, 1, {b"b": b"3"}, txid=1, base=0)
        for at in (ReadPosition(), ReadPosition(1, winner, first), ReadPosition(0, new_attempt(), first)):
            _refuse_reads(storage, attempt, at)
        for staged_so_far in (None, first, second):
            at = ReadPosition(0, winner, staged_so_far)
            assert storage.get_many([b"a", b"b"], attempt, at) == [b"1", b"3"]
            assert entries(storage, attempt, at=at) == {b"a": b"1", b"b": b"3"}
        _refuse_reads(storage, attempt, ReadPosition(0, winner, Seal(2, second.checksum ^ 1)))
        storage.rollback(FIRST)
        _refuse_reads(storage, attempt, ReadPosition(0, winner, second))

    def test_a_scan_that_the_namespace_moves_away_from_is_refused(self, storage: StateStorage) -> None:
        winner = committed(storage, [(b"%d" % number, b"v") for number in range(3_000)])
        pages = storage.scan(page_size=500, at=ReadPosition(0, winner))
        found = next(pages)
        committed(storage, [(b"%d" % number, None) for number in range(3_000)], txid=1, base=0)
        refused(StaleAttempt, found.extend, (entry for page in pages for entry in page))
        assert len(found) <= 1_500  # entries read with the first page may still be yielded
        refused(StaleAttempt, list, storage.scan_range(storage.ranges(2)[0], 500, ReadPosition(0, winner)))

    def test_a_slice_that_is_added_is_seen_by_the_next_read(self, storage: StateStorage) -> None:
        attempt, _ = stage(storage, [(b"a", b"1"), (b"b", b"1")])
        assert storage.get_many([b"a", b"b", b"c"], attempt) == [b"1", b"1", None]
        stage_slice(storage, attempt, 1, {b"a": None, b"c": b"2"})
        assert storage.get_many([b"a", b"b", b"c"], attempt) == [None, b"1", b"2"]
        stage_slice(storage, attempt, 2, {b"a": b"3"})
        assert entries(storage, attempt) == {b"a": b"3", b"b": b"1", b"c": b"2"}

    def test_the_value_of_the_last_slice_is_committed(self, storage: StateStorage) -> None:
        committed(storage, [(b"a", b"0"), (b"b", b"0"), (b"c", b"0")])
        slices = [(b"a", b"1"), (b"b", None)], [(b"a", None), (b"b", b"2"), (b"c", b"2")], [(b"c", None)]
        committed(storage, *slices, txid=1, base=0)
        assert entries(storage) == {b"b": b"2"}

    def test_the_seal_counts_slices_and_carries_the_checksum_of_all_updates(self, storage: StateStorage) -> None:
        attempt = new_attempt()
        first = StagedSlice(FIRST, 0, attempt, -1, 0, {b"a": b"1", b"b": None}, CODEC)
        second = StagedSlice(FIRST, 0, attempt, -1, 1, {b"c": b""}, CODEC)
        checksum = first.checksum_after(0)
        assert storage.stage(first) == Seal(1, checksum)
        seal = storage.stage(second)
        assert seal == Seal(2, second.checksum_after(checksum))
        assert storage.head().attempts == {attempt: StagedAttempt(0, -1, FIRST, None)}
        for _ in range(2):  # a repeated seal is accepted
            storage.seal(FIRST, attempt, seal)
            assert storage.head().attempts == {attempt: StagedAttempt(0, -1, FIRST, seal)}

    def test_a_repeated_latest_slice_is_accepted_and_ignored(self, storage: StateStorage) -> None:
        items = [(b"a", b"1"), (b"b", None)]
        attempt, seal = stage(storage, items)
        assert stage_slice(storage, attempt, 0, dict(items)) == seal
        seal = stage_slice(storage, attempt, 1, {b"a": b"2"})
        assert stage_slice(storage, attempt, 1, {b"a": b"2"}) == seal
        storage.seal(FIRST, attempt, seal)
        storage.commit(FIRST, 0, attempt)
        assert entries(storage) == {b"a": b"2"}

    def test_starting_an_attempt_drops_those_of_lower_fences_and_no_other(self, storage: StateStorage) -> None:
        low, _ = stage(storage, [(b"a", b"1")], fence=Fence(1, 1))
        equal, _ = stage(storage, [(b"a", b"2")], fence=Fence(1, 1))
        assert storage.head().attempts.keys() == {low, equal}
        high, _ = stage(storage, [(b"a", b"3")], fence=Fence(1, 2))
        assert storage.head().attempts.keys() == {high}
        assert storage.get_many([b"a"], low) == [None]
        refused(StaleAttempt, stage_slice, storage, low, 1, {}, fence=Fence(1, 2))

    def test_an_attempt_goes_on_under_a_higher_fence(self, storage: StateStorage) -> None:
        attempt, _ = stage(storage, [(b"a", b"1")], fence=Fence(1, 1))
        seal = stage_slice(storage, attempt, 1, {b"b": b"2"}, fence=Fence(1, 2))
        storage.seal(Fence(1, 2), attempt, seal)
        assert storage.head().attempts == {attempt: StagedAttempt(0, -1, Fence(1, 1), seal)}

    def test_a_commit_moves_txid_and_winner_and_drops_the_losers(self, storage: StateStorage) -> None:
        loser = staged(storage, [(b"a", b"loser"), (b"b", b"loser")])
        winner = staged(storage, [(b"a", b"winner")])
        stage(storage, [(b"c", b"unsealed")])
        storage.commit(FIRST, 0, winner)
        head = storage.head()
        assert (head.committed, head.winner, head.attempts) == (0, winner, {})
        assert entries(storage) == {b"a": b"winner"}
        assert entries(storage, loser) == {b"a": b"winner"}
        refused(StaleAttempt, storage.commit, FIRST, 0, loser)

    def test_a_repeated_commit_changes_nothing(self, storage: StateStorage) -> None:
        attempt = committed(storage, [(b"a", b"1")])
        following = staged(storage, [(b"a", b"2")], txid=1, base=0)
        before = storage.head()
        storage.commit(FIRST, 0, attempt)
        assert storage.head() == before
        storage.commit(Fence(2, 0), 0, attempt)
        assert storage.head().attempts.keys() == {following}
        storage.commit(Fence(2, 0), 1, following)
        assert entries(storage) == {b"a": b"2"}

    def test_a_commit_of_what_is_not_here_says_that_the_store_went_back(self, storage: StateStorage) -> None:
        committed(storage, [(b"a", b"1")], txid=4)
        other = staged(storage, [(b"a", b"2")], txid=5, base=4)
        lost, before = new_attempt(), storage.head()
        error = refused(StateRegressed, storage.commit, Fence(3, 0), 5, lost)
        assert error.namespace == storage.namespace
        assert lost in error.expected
        assert "4" in error.found
        assert storage.head() == before
        assert entries(storage) == {b"a": b"1"}
        storage.commit(FIRST, 5, other)
        assert entries(storage) == {b"a": b"2"}

    def test_an_attempt_without_updates_moves_the_txid(self, storage: StateStorage) -> None:
        committed(storage, [(b"a", b"1")])
        winner = committed(storage, [], txid=7, base=0)
        assert (storage.head().committed, storage.head().winner) == (7, winner)
        assert entries(storage) == {b"a": b"1"}

    def test_a_rollback_drops_all_attempts_and_nothing_else(self, storage: StateStorage) -> None:
        winner = committed(storage, [(b"a", b"1")])
        attempt = staged(storage, [(b"a", b"2")], txid=1, base=0)
        stage(storage, [(b"a", b"3")], txid=1, base=0)
        assert storage.rollback(Fence(1, 1)) == 2
        head = storage.head()
        assert (head.fence, head.committed, head.winner, head.attempts) == (Fence(1, 1), 0, winner, {})
        assert storage.rollback(Fence(1, 1)) == 0
        assert entries(storage, attempt) == {b"a": b"1"}
        refused(StateRegressed, storage.commit, Fence(1, 1), 1, attempt)

    def test_an_attempt_may_be_started_again_after_a_rollback(self, storage: StateStorage) -> None:
        attempt, _ = stage(storage, [(b"a", b"1"), (b"b", b"1")], [(b"c", b"1")])
        assert entries(storage, attempt) == {b"a": b"1", b"b": b"1", b"c": b"1"}
        storage.rollback(FIRST)
        _, seal = stage(storage, [(b"a", b"2")], [(b"d", b"2")], attempt=attempt)
        assert entries(storage, attempt) == {b"a": b"2", b"d": b"2"}
        storage.seal(FIRST, attempt, seal)
        storage.commit(FIRST, 0, attempt)
        assert entries(storage) == {b"a": b"2", b"d": b"2"}

    def test_a_write_changes_entries_at_once_and_leaves_txid_and_winner(self, storage: StateStorage) -> None:
        storage.write(FIRST, {b"decision": b"1", b"empty": b""}, CODEC)
        storage.write(FIRST, {b"decision": b"2"}, CODEC)
        storage.write(FIRST, {b"decision": b"2"}, CODEC)
        head = storage.head()
        assert (head.committed, head.winner, head.codec) == (NOTHING_COMMITTED, "", CODEC)
        assert entries(storage) == {b"decision": b"2", b"empty": b""}

    def test_the_first_writer_sets_the_codec_and_others_are_refused(self, storage: StateStorage) -> None:
        assert storage.raise_fence(FIRST).codec == ""
        attempt, _ = stage(storage, [(b"a", b"1")])
        assert storage.head().codec == CODEC
        error = refused(CodecMismatch, stage_slice, storage, attempt, 1, {b"b": b"2"}, codec="other/2")
        assert error.namespace == storage.namespace
        refused(CodecMismatch, storage.write, FIRST, {b"b": b"2"}, "other/2")
        assert storage.head().codec == CODEC
        assert entries(storage, attempt) == {b"a": b"1"}

    def test_a_removed_namespace_is_a_new_one(
        self, provider: StateProvider, storage: StateStorage, namespace: str
    ) -> None:
        if type(storage).remove is StateStorage.remove:
            return  # the store has no such step
        higher, items = Fence(3, 0), [(b"%d" % number, b"old") for number in range(3000)]
        committed(storage, items, fence=higher)
        committed(storage, [(b"0", None)], fence=higher, txid=1, base=0)
        staged(storage, [(b"1", b"staged")], fence=higher, txid=2, base=1)
        refused(Fenced, storage.remove, FIRST)
        assert len(entries(storage)) == 2999
        storage.remove(higher)
        with closing(provider.open(namespace)) as other:
            for each in (storage, other):
                assert (each.head(), entries(each), each.get_many([b"1"])) == (NamespaceHead(), {}, [None])
                assert list(provider.namespaces(namespace)) == []
                each.remove(FIRST)
        committed(storage, [(b"0", b"new")])
        assert entries(storage) == {b"0": b"new"}

    def test_each_step_may_come_from_another_handle(self, provider: StateProvider, namespace: str) -> None:
        attempt = new_attempt()
        for number in (0, 1, 2, 2):
            with closing(provider.open(namespace)) as storage:
                seal = stage_slice(storage, attempt, number, {b"k%d" % number: b"v"})
        with closing(provider.open(namespace)) as storage:
            storage.seal(FIRST, attempt, seal)
        with closing(provider.open(namespace)) as storage:
            storage.commit(FIRST, 0, attempt)
        with closing(provider.open(namespace)) as storage:
            assert entries(storage) == {b"k0": b"v", b"k1": b"v", b"k2": b"v"}

    def test_two_handles_stage_one_attempt_in_turn(self, provider: StateProvider, namespace: str) -> None:
        with closing(provider.open(namespace)) as one, closing(provider.open(namespace)) as two:
            attempt, _ = stage(one, [(b"a", b"1")])
            stage_slice(two, attempt, 1, {b"b": b"2"})
            assert one.get_many([b"b"], attempt) == [b"2"]
            seal = stage_slice(one, attempt, 2, {b"c": b"3"})
            two.rollback(FIRST)
            stage_slice(two, attempt, 0, {b"d": b"4"})
            refused(StaleAttempt, stage_slice, one, attempt, 3, {b"e": b"5"})
            assert stage_slice(one, attempt, 1, {b"f": b"6"}) != seal
            assert entries(one, attempt) == entries(two, attempt) == {b"d": b"4", b"f": b"6"}

    def test_a_storage_may_be_closed_twice(self, provider: StateProvider, namespace: str) -> None:
        storage = provider.open(namespace)
        storage.claim()
        storage.close()
        storage.close()


def _refuse_reads(storage: StateStorage, attempt: str | None, at: ReadPosition) -> None:
    refused(StaleAttempt, storage.get_many, [b"a", b"b"], attempt, at)
    refused(StaleAttempt, entries, storage, attempt, at=at)
