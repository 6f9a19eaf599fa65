"""Word count, and what measures it replaced by what does nothing, for `measuring.py`. Workers import this module."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

from anchorbolt.bolts import BaseBasicBolt, BaseStatefulBolt
from anchorbolt.engine.task.instance import Instance
from anchorbolt.metrics.registry import MetricRegistry
from anchorbolt.observe import observed_run
from anchorbolt.observe.figures.run_figures import RunFigures
from anchorbolt.observe.history.records import Wave
from anchorbolt.observe.history.writer import HistoryWriter
from anchorbolt.spouts.base import Spout, StreamSpout
from anchorbolt.state_backends import KeyValueState
from anchorbolt.state_backends.attempt import StateCounters
from anchorbolt.topology import TopologyBuilder
from anchorbolt.topology.graph import Topology

MEASURES = "benchmark.measures"
"""The key of a run's configuration that says whether it measures."""

_WORDS_PER_SENTENCE = 10
_DISTINCT_WORDS = 20_000
_is_on = True  # in this process, for the current run
_spent_s = 0.0


class Split(BaseBasicBolt):
    """Splits sentences into words."""

    def execute(self, tup: Any, collector: Any) -> None:
        for word in tup["sentence"].split():
            collector.emit((word,))

    def declare_output_fields(self, declarer: Any) -> None:
        declarer.declare("word")


class Count(BaseStatefulBolt[KeyValueState[str, int]]):
    """Counts words."""

    def init_state(self, state: KeyValueState[str, int]) -> None:
        self.counts = state

    def execute(self, tup: Any) -> None:
        word = tup["word"]
        self.counts.put(word, self.counts.get(word, 0) + 1)


def word_count(name: str, spout: Spout, tasks: int) -> Topology:
    """Return the topology, with so many tasks of each bolt."""
    builder = TopologyBuilder()
    builder.set_spout("sentences", spout)
    builder.set_bolt("split", Split(), tasks).shuffle_grouping("sentences")
    builder.set_bolt("count", Count(), tasks).fields_grouping("split", "word")
    return builder.create_topology(name)


def files_spout(folder: Path) -> StreamSpout:
    """Return a spout that reads the files of a folder, two in a wave."""

    def lines(session: Any) -> Any:
        return session.readStream.option("maxFilesPerTrigger", 2).text(str(folder))

    return StreamSpout(lines, ["sentence"])


def sentences(number: int, seed: int) -> list[str]:
    """Return sentences of words of which some are frequent."""
    draw = random.Random(seed)
    words = [f"word{int(draw.paretovariate(0.7)) % _DISTINCT_WORDS}" for _ in range(number * _WORDS_PER_SENTENCE)]
    return [" ".join(words[at : at + _WORDS_PER_SENTENCE]) for at in range(0, len(words), _WORDS_PER_SENTENCE)]


def driver_seconds() -> float:
    """Return the processor time that this process has spent on figures and history so far, on whatever threads."""
    return _spent_s


def _counted(function: Callable[..., Any], otherwise: Any = None) -> Callable[..., Any]:
    """Return a function that adds its time to `driver_seconds`, and in a run that does not measure does nothing."""

    def counted(*arguments: Any, **named: Any) -> Any:
        global _spent_s
        if not _is_on:
            return otherwise
        began = thread_time()
        try:
            return function(*arguments, **named)
        finally:
            _spent_s += thread_time() - began

    return counted


def _make_switchable() -> None:
    """Have each run of this process measure only if its configuration says so. What a report holds anyway stays."""
    begin, note, take = Instance.begin, StateCounters.note, MetricRegistry.take
    figures = RunFigures.__init__

    def switch(plan: Any) -> None:
        global _is_on
        _is_on = plan.conf[MEASURES]

    def switched_begin(instance: Instance, plan: Any, *arguments: Any, **more: Any) -> None:
        switch(plan)
        begin(instance, plan, *arguments, **more)

    def switched_figures(self: RunFigures, plan: Any) -> None:
        switch(plan)
        figures(self, plan)

    replacements: list[tuple[Any, str, Any]] = [
        (Instance, "begin", switched_begin),
        (StateCounters, "note", lambda *arguments: note(*arguments) if _is_on else None),
        (MetricRegistry, "take", lambda registry: take(registry) if _is_on else {}),
        (RunFigures, "__init__", switched_figures),
        (RunFigures, "add", _counted(RunFigures.add)),
        (observed_run, "wave_record", _counted(observed_run.wave_record, otherwise=Wave(at=0.0, generation=0, txid=0))),
        (HistoryWriter, "add", _counted(HistoryWriter.add)),
        (HistoryWriter, "_written", _counted(HistoryWriter._written, otherwise=True)),
    ]
    for place, name, by in replacements:
        setattr(place, name, by)


_make_switchable()
