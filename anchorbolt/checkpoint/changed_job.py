"""Finds the state that a changed job would leave behind, or look for in other tasks. Pure.

The record names the bolts with state, the tasks of each, and their groupings. A renamed bolt would begin without its
state while the source continues. With another grouping, a key of one task would begin without its value in another
task. Both are refused, unless the loss is accepted for one run.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anchorbolt.checkpoint.decision import DecisionRecord, Inputs
from anchorbolt.checkpoint.ports import Layout
from anchorbolt.errors import TopologyError
from anchorbolt.state_backends.rules import task_namespace
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.util.messages import counted


@dataclass(frozen=True)
class AffectedState:
    """The state of one bolt that a start would leave behind or look for in other tasks."""

    component: str
    namespaces: tuple[str, ...]  # only namespaces with committed data
    inputs: tuple[Inputs, Inputs] | None  # before and now, if they have changed; None if the bolt is gone

    def problem(self, layout: Layout, record: DecisionRecord, keys: int | None) -> TopologyError:
        """Return the refusal; `keys` is the number of entries in the namespaces, None if the store cannot say."""
        number = "" if not keys else f" with {counted(keys, 'key')}"
        what = f"the state of {counted(len(self.namespaces), 'task')}{number}"
        accept = "To go on all the same, set topology.state.accept.loss to true for one run"
        if self.inputs is not None:
            before, now = (", ".join(f"{text} of {source!r}" for source, _, text in each) for each in self.inputs)
            return TopologyError(
                f"bolt {self.component!r} gets {now}, but its state was written by {before}. A key that one task has "
                f"could go to another task now, and begin anew there: {what}. Nothing was changed. Set the grouping "
                f"back. {accept}: each key stays in the task that has it.",
                component=self.component,
            )
        new = [name for name in layout.parallelism if name != ACKER_ID and name not in record.parallelism]
        renamed = f"anchorbolt state rename {layout.topology} {self.component} {new[0] if len(new) == 1 else 'NEW_ID'}"
        return TopologyError(
            f"the topology has no stateful bolt {self.component!r} any more, whose state would stay behind: {what}. "
            f"Nothing was changed. If the bolt was renamed, set its id back, or rename the state: {renamed}. {accept}: "
            "the state stays in the store, unused.",
            component=self.component,
        )


def affected_states(layout: Layout, record: DecisionRecord, prefix: str) -> Iterator[AffectedState]:
    """Yield the states that this topology would leave behind, or look for in other tasks."""
    for component, tasks in record.parallelism.items():
        names = (task_namespace(prefix, component, index) for index in range(tasks))
        namespaces = tuple(name for name in names if name in record.namespaces)
        if component == ACKER_ID or not namespaces:
            continue
        if component not in layout.parallelism:
            if component not in record.left_behind:
                yield AffectedState(component, namespaces, None)
        elif tasks > 1:  # otherwise all keys stay in the only task
            before, now = record.groupings.get(component, ()), layout.groupings.get(component, ())
            if before and _has_changed(before, now):
                yield AffectedState(component, namespaces, (before, now))


def left_behind_after(record: DecisionRecord, layout: Layout) -> tuple[str, ...]:
    """Return the bolts with state that a run of this topology leaves behind, as was accepted."""
    return tuple(sorted(record.parallelism.keys() - layout.parallelism.keys() - {ACKER_ID}))


def _has_changed(before: Inputs, now: Inputs) -> bool:
    """Return whether a stream's grouping has changed. Streams of renamed components are compared by grouping only."""
    groupings = _by_stream(before), _by_stream(now)
    common = groupings[0].keys() & groupings[1].keys()
    gone, new = ({text for stream, text in each.items() if stream not in common} for each in groupings)
    return any(groupings[0][stream] != groupings[1][stream] for stream in common) or bool(gone and new - gone)


def _by_stream(inputs: Inputs) -> Mapping[tuple[str, str], str]:
    return {(source, stream): text for source, stream, text in inputs}
