"""Reads the tuple trees that earlier runs left open from the committed state of the ackers.

A tree belongs to a message. It is kept while its spout redelivers messages under the same ids. If this run has no such
spout, the tree waits until a later run has it.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import NamedTuple

from anchorbolt.checkpoint.decision import DecisionRecord, carried_spout_tasks
from anchorbolt.engine.plan.execution_plan import ExecutionPlan
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.tracking.stored_trees import OpenTree, OpenTreeCodec, RootCodec

_log = logging.getLogger("anchorbolt.engine")

KEPT = (
    "They are kept until the topology has the spout again. If it was renamed, set the name back: what its source "
    "delivers again would count twice."
)
"""The end of a warning about messages of a spout that the run does not have."""

_NO_TASK = 0  # of a tree that cannot be acked or failed; ids count from 1


class FoundTree(NamedTuple):
    """An open tree, and the acker that keeps it."""

    acker: int
    root: int
    tree: OpenTree
    spout: str  # its id; empty if the tree cannot be acked or failed
    is_changed: bool  # whether the acker's copy is outdated: the spout's task has another id now


def open_trees(plan: ExecutionPlan, record: DecisionRecord) -> Iterator[FoundTree]:
    """Yield all open trees, with the ids that the spouts' tasks have now.

    Raises the errors of the store, and `StateCorrupted`.
    """
    names = carried_spout_tasks(record.spout_tasks, plan.spouts_of_trees)
    forgetful = plan.graph.spouts.keys() - set(plan.spouts_of_trees.values())
    for index in range(record.parallelism.get(ACKER_ID, 0)):
        namespace = plan.wiring.namespace((ACKER_ID, index))
        encoding = EntryEncoding(namespace, RootCodec(), OpenTreeCodec())
        with closing(plan.provider.open(namespace)) as storage:
            for page in storage.scan():
                for key_data, data in page:
                    root, tree = encoding.entry_from(key_data, data)
                    spout = record.spout_tasks.get(tree.spout_task, "")
                    if spout in forgetful:  # its source redelivers the message under a new id
                        spout = ""
                    task = _task_now(names, spout, tree.spout_task)
                    yield FoundTree(index, root, tree._replace(spout_task=task), spout, task != tree.spout_task)


def check_spouts_left_out(plan: ExecutionPlan, record: DecisionRecord) -> None:
    """Warn of unconfirmed acks of a removed spout; refuse a run without ackers while trees are open.

    Without ackers, nothing would note the end of a tree. Raises `TopologyError`, and the errors of `open_trees`.
    """
    for spout in sorted({messages.component for messages in record.acked} - plan.graph.spouts.keys()):
        _log.warning(
            "the spout %r was removed, and its source may not know of its last acks. %s",
            spout,
            KEPT,
            extra={"component": spout},
        )
    if plan.wiring.ackers or not record.parallelism.get(ACKER_ID):
        return
    waiting = Counter(each.spout for each in open_trees(plan, record) if each.spout)
    if waiting and not plan.settings.accept_state_loss:
        [(spout, number)] = waiting.most_common(1)
        why, way = "there is no rich spout", "Set the spout back"
        if plan.wiring.rich_spout_tasks:
            why, way = "topology.acker.executors is 0", "Set it to at least 1"
        raise TopologyError(
            f"{number} messages of spout {spout!r} are in flight since an earlier run, and this run has no ackers, "
            f"because {why}: the messages would never be acked, or count twice when they are delivered again. {way}, "
            "and stop that run when no message is in flight any more. To go on without them, set "
            "topology.state.accept.loss to true for one run.",
            component=spout,
        )


def _task_now(names: Mapping[int, str], spout: str, before: int) -> int:
    """Return the new id of the spout's task that had the id `before`; `names` are the next record's spouts by task.

    With its old id, a tree that is still open after this run could belong to another spout.
    """
    if names.get(before) == spout:
        return before
    return next((id for id, component in names.items() if component == spout), _NO_TASK) if spout else _NO_TASK
