"""The state of one acker, which is committed with the wave: its open trees, by root."""

from anchorbolt.acker.stored_tree import OpenTree, OpenTreeCodec, RootCodec
from anchorbolt.state_backends.cache_budget import CacheBudget
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState

_CACHE_ENTRIES = 32_768
_PENDING_ENTRIES = 16_384

TREE_HEADER = EntryEncoding("", RootCodec(), OpenTreeCodec()).header
"""The format header of an acker's namespace."""

TreeState = KeyValueState[int, OpenTree]


def tree_state(storage: StateStorage, budget: CacheBudget | None = None) -> TreeState:
    """Make the state of an acker over its namespace: it is `ledger.OpenTrees` and `placement.Trees`.

    It keeps few entries in memory, whatever the number of open trees is: most are written once, read once and removed.
    """
    return KeyValueState(
        storage,
        key_codec=RootCodec(),
        value_codec=OpenTreeCodec(),
        cache_entries=_CACHE_ENTRIES,
        pending_entries=_PENDING_ENTRIES,
        budget=budget,
    )
