"""The open trees of one acker in its state, which is committed with the wave."""

from collections.abc import Iterator, Mapping, Sequence

from anchorbolt.acker.stored_tree import OpenTree, OpenTreeCodec, RootCodec
from anchorbolt.state_backends.contract import StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.key_value import KeyValueState

_CACHE_ENTRIES = 32_768
_PENDING_ENTRIES = 16_384

TREE_HEADER = EntryEncoding("", RootCodec(), OpenTreeCodec()).header
"""The format header of an acker's namespace."""

TreeState = KeyValueState[int, OpenTree]


def tree_state(storage: StateStorage) -> TreeState:
    """Make the state of an acker over its namespace.

    It keeps few entries in memory, whatever the number of open trees is: most are written once, read once and removed.
    """
    return KeyValueState(
        storage,
        key_codec=RootCodec(),
        value_codec=OpenTreeCodec(),
        cache_entries=_CACHE_ENTRIES,
        pending_entries=_PENDING_ENTRIES,
    )


class StoredTrees:
    """`ledger.OpenTrees` over the state of one acker. The state's owner begins and prepares its waves.

    All methods raise the errors of `KeyValueState`: `StateCorrupted` for an entry that cannot be read.
    """

    def __init__(self, state: TreeState) -> None:
        self._state = state

    def get_many(self, roots: Sequence[int]) -> Mapping[int, OpenTree]:
        return self._state.get_many(roots)

    def put(self, root: int, tree: OpenTree) -> None:
        self._state.put(root, tree)

    def remove(self, root: int) -> None:
        self._state.delete(root)

    def items(self) -> Iterator[tuple[int, OpenTree]]:
        """Yield all open trees in any order, see `KeyValueState.items`."""
        return self._state.items()
