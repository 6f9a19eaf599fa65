"""Where the time of a run goes: by component and by what its tasks do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anchorbolt.observe.figures.run_figures import Figures
from anchorbolt.observe.figures.tasks import Figure, TaskFigures


class ComponentProfile(NamedTuple):
    """The time of all tasks of a component together, in ms. No part is in another."""

    component: str
    tuples: int  # executed; of a spout, read
    source_ms: float  # reading or waiting for the source; spouts only
    decode_ms: float  # decoding blobs and making tuples
    execute_ms: float  # in the bolt's own hooks, and around its calls; of a sink, converting and writing rows
    state_ms: float  # reading from the store
    encode_ms: float  # grouping and encoding emitted tuples
    stage_ms: float  # staging updates in the store, and sealing them

    @property
    def total_ms(self) -> float:
        """All parts together."""
        return sum(self[2:])


class Profile(NamedTuple):
    """A window of a run."""

    components: Sequence[ComponentProfile]  # in the order of the tasks
    rounds_ms: float  # of the winning rounds: source, compute and prepare
    decide_ms: float
    commit_ms: float

    @property
    def working(self) -> float:
        """The mean number of tasks that worked at a time during the rounds: at most the number of cores.

        What is missing is Spark, the network, and tasks that wait for others.
        """
        tasks_ms = sum(each.total_ms - each.source_ms for each in self.components)
        return tasks_ms / self.rounds_ms if self.rounds_ms else 0.0


def profile_of(figures: Figures) -> Profile:
    """Return where the time of these figures went."""
    tasks: dict[str, list[TaskFigures]] = {}
    for each in figures.tasks:
        tasks.setdefault(each.task[0], []).append(each)
    phases = {phase: times.total for phase, times in figures.phases_ms.items()}
    rounds_ms = sum(phases.get(phase, 0.0) for phase in ("source", "compute", "prepare"))
    components = [_component(name, of_component) for name, of_component in tasks.items()]
    return Profile(components, rounds_ms, phases.get("decide", 0.0), phases.get("commit", 0.0))


def _component(name: str, tasks: Sequence[TaskFigures]) -> ComponentProfile:
    def total(figure: Figure) -> float:
        return sum(each[figure] for each in tasks)

    decode_ms, state_ms, encode_ms = total(Figure.DECODE_MS), total(Figure.READ_MS), total(Figure.ENCODE_MS)
    stage_ms = total(Figure.STAGE_MS) + total(Figure.SEAL_MS)
    own_ms = total(Figure.BUSY_MS) - decode_ms - state_ms - encode_ms - stage_ms
    return ComponentProfile(
        name,
        int(total(Figure.EXECUTED)),
        total(Figure.SOURCE_MS),
        decode_ms,
        max(0.0, own_ms),
        state_ms,
        encode_ms,
        stage_ms,
    )
