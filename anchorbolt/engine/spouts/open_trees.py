"""Reads the tuple trees that earlier runs left open from the committed state of the ackers."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from anchorbolt.acker.placement import ACKER_ID
from anchorbolt.acker.stored_tree import OpenTree, OpenTreeCodec, RootCodec
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine.submit.plan import ExecutionPlan
from anchorbolt.state_backends.encoding import EntryEncoding

_NO_TASK = 0  # of a spout that the topology does not have any more; ids count from 1


class FoundTree(NamedTuple):
    """An open tree, and the acker that keeps it."""

    acker: int
    root: int
    tree: OpenTree
    spout: str  # its id
    is_changed: bool  # whether the tree is not as the acker keeps it: the task of its spout has another id now


def open_trees(plan: ExecutionPlan, record: DecisionRecord) -> Iterator[FoundTree]:
    """Yield all open trees, with the ids that the spouts' tasks have now.

    Raises the errors of the store, and `StateCorrupted`.
    """
    spouts = {plan.task_id(task): task[0] for task in plan.rich_spout_tasks}
    for index in range(record.parallelism.get(ACKER_ID, 0)):
        namespace = plan.namespace((ACKER_ID, index))
        encoding = EntryEncoding(namespace, RootCodec(), OpenTreeCodec())
        with closing(plan.provider.open(namespace)) as storage:
            for page in storage.scan():
                for key_data, data in page:
                    root, tree = encoding.entry_from(key_data, data)
                    spout = record.spout_tasks.get(tree.spout_task, "")
                    task = _task_now(spouts, spout, tree.spout_task)
                    yield FoundTree(index, root, tree._replace(spout_task=task), spout, task != tree.spout_task)


def _task_now(spouts: Mapping[int, str], spout: str, before: int) -> int:
    """Return the id of a task of the spout that had a task with the id `before`; `spouts` are those of this run.

    The next record names the spouts by the ids of this run. Without this, a tree that outlives this run too would then
    belong to another spout.
    """
    if spouts.get(before, spout) == spout:
        return before
    return next((id for id, component in spouts.items() if component == spout), _NO_TASK)
