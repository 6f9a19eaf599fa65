"""The topologies in a store of each kind, with sizes, ages and what is left over."""

from contextlib import closing

import pytest

from anchorbolt.migration_tools.upkeep.listing import StoredTopology, stored_topologies
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.testing.conformance.base import committed
from tests.migration_tools.conftest import ALL, RunWords


def listed(provider: StateProvider, *, count: bool = False) -> dict[str, StoredTopology]:
    return {each.prefix: each for each in stored_topologies(provider, count=count)}


@pytest.mark.parametrize("store", ALL[1:], indirect=True)
def test_every_store_lists_topologies_and_namespaces_without_a_record(
    store: StateProvider, run_words: RunWords, name: str
) -> None:
    run_words(store, "to be or not to be")
    with closing(store.open(f"{name}-gone:count-0")) as storage:
        committed(storage, [(b"a", b"1"), (b"b", b"2")])
    assert not listed(store)[name].holds_fence
    with closing(store.open(f"{name}:$checkpointspout-0")) as storage:
        storage.claim()
    found = listed(store, count=True)
    words, gone = found[name], found[f"{name}-gone"]
    assert (words.topology, words.entries, words.txid, words.left_over) == (name, 4, 0, ())
    assert (words.generation, words.holds_fence) == (2, True)
    assert (gone.topology, gone.txid, gone.committed_at) == ("", None, None)
    assert (gone.entries, gone.left_over) == (2, (f"{name}-gone:count-0",))
    quick = listed(store)[name]
    assert quick.entries in (4, None)
    assert (quick.size is None) == (quick.entries is None)
