"""One try at a batch: when its metadata counts as known, and what is refused."""

from dataclasses import replace

import pytest

from anchorbolt.errors import WaveFailed
from anchorbolt.state_backends.contract import Fence
from anchorbolt.transactional.batches.flights import Flight
from anchorbolt.transactional.batches.metadata import BatchMetadata

LAST = BatchMetadata(6, number_of_partitions=2, partitions={0: b"a", 1: b"b"}, emitted=frozenset({0, 1}))
NEW = replace(LAST, txid=7, number_of_partitions=3, emitted=frozenset())


def flight(metadata: BatchMetadata = NEW, *, is_stored: bool = False) -> Flight:
    return Flight(metadata, Fence(1, 5), is_stored, LAST, is_stored)


def test_metadata_that_has_to_be_stored_is_not_known_before_it_is() -> None:
    """It failed: the next batch began although the store had lost the metadata of this one."""
    new = flight()
    assert not new.tell({0: b"c", 2: None})
    assert new.tell({1: None})
    assert not new.is_known
    assert new.tell({1: None}), "told again: the store may not have it"
    assert new.metadata == replace(NEW, partitions={0: b"c", 1: b"b"}, emitted=frozenset({0}))


def test_metadata_that_is_stored_is_known_and_is_not_stored_again() -> None:
    assert flight(is_stored=True).is_known
    assert not flight(is_stored=True).tell({0: b"c", 1: None, 2: None})


def test_a_task_that_runs_twice_and_finds_another_batch_is_refused() -> None:
    new = flight()
    new.tell({0: b"c"})
    with pytest.raises(WaveFailed):
        new.tell({0: b"d"})


@pytest.mark.parametrize("reported", [{0: b"a"}, {0: b"a", 1: b"c"}, {0: b"a", 1: b"b", 2: b"c"}])
def test_reports_of_other_batches_than_the_stored_one_are_refused(reported: dict[int, bytes]) -> None:
    stored = replace(LAST, txid=7, number_of_partitions=3)
    flight(stored, is_stored=True).check_reported({0: b"a", 1: b"b"})
    with pytest.raises(WaveFailed):
        flight(stored, is_stored=True).check_reported(reported)
