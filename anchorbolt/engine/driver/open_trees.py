"""Reads the tuple trees that earlier runs left open from the committed state of the ackers."""

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

from anchorbolt.acker.placement import ACKER_ID
from anchorbolt.acker.stored_tree import OpenTree, OpenTreeCodec, RootCodec
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.state_backends.encoding import EntryEncoding


class FoundTree(NamedTuple):
    """An open tree, and the acker that keeps it."""

    acker: int
    root: int
    tree: OpenTree
    spout: str  # its id


def open_trees(plan: ExecutionPlan, record: DecisionRecord) -> Iterator[FoundTree]:
    """Yield all open trees. Raises the errors of the store, and `StateCorrupted`."""
    for index in range(record.parallelism.get(ACKER_ID, 0)):
        namespace = plan.namespace((ACKER_ID, index))
        encoding = EntryEncoding(namespace, RootCodec(), OpenTreeCodec())
        with closing(plan.provider.open(namespace)) as storage:
            for page in storage.scan():
                for key_data, data in page:
                    root, tree = encoding.entry_from(key_data, data)
                    yield FoundTree(index, root, tree, record.spout_tasks.get(tree.spout_task, ""))
