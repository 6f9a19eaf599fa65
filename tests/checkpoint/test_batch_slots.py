"""The slots of the metadata of batches in flight: none is used again before its batch has committed."""

from anchorbolt.transactional.batches.metadata import BatchMetadata, Slots


def stored(slots: dict[int, int]) -> dict[int, bytes]:
    """Return slots that hold batches, by their txids."""
    return {slot: BatchMetadata(txid).encode() for slot, txid in slots.items()}


def test_a_batch_keeps_its_slot_until_it_has_committed() -> None:
    slots = Slots({}, 0)
    assert [slots.slot_of(txid, 0) for txid in (1, 2, 3, 2)] == [0, 1, 2, 1]
    assert [slots.slot_of(txid, 1) for txid in (4, 2, 3)] == [0, 1, 2]


def test_a_later_run_with_more_pending_batches_writes_over_no_batch_that_is_not_committed() -> None:
    """It failed: the slot was txid % pending, so that batch 6 took the slot of batch 5."""
    slots = Slots(stored({0: 4, 1: 5}), 3)
    assert sorted(slots.found) == [4, 5]
    assert [slots.slot_of(txid, 3) for txid in (4, 5, 6, 7, 8)] == [0, 1, 2, 3, 4]


def test_the_slots_of_batches_that_have_committed_are_used_again() -> None:
    slots = Slots(stored({0: 4, 1: 5, 2: 3}), 4)
    assert list(slots.found) == [5]
    assert [slots.slot_of(txid, 4) for txid in (5, 6, 7)] == [1, 0, 2]
