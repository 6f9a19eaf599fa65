"""Blobs and reports that an engine delivers twice: a tuple tree must not count them twice."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.engine.local import runner as levels
from anchorbolt.engine.sources.rich_spouts import RichSpouts
from anchorbolt.errors import Fenced
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.topology import Topology
from tests.engine.jobs import chain, finished
from tests.reliability.jobs import ACKED, FAILED, MESSAGES, Count, Pairs, QueueSpout


class FailsTheFirst(Pairs):
    """Fails the first tuple of an id when the second one has come."""

    def execute(self, tup: Any) -> None:
        handle, _ = self.state.get(tup["id"]) or (None, None)
        if handle is None:
            self.state.put(tup["id"], (tup.handle, 0))
            return
        self.collector.fail(handle)
        self.collector.ack(tup)


def pairs(bolt: Pairs) -> Topology:
    return chain(
        "twice", {"in": QueueSpout("id", "value", replay=False), "pairs": (bolt, "id"), "count": (Count(), "word")}
    )


def test_what_a_task_adds_to_the_trees_counts_once_if_its_prepare_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    interleaved = levels._interleaved

    def twice(rows: Any, order: Any) -> Iterator[Any]:
        arriving = list(interleaved(rows, order))
        yield from arriving
        yield arriving[-1]  # the last one of a sender is its PREPARE

    monkeypatch.setattr(levels, "_interleaved", twice)
    MESSAGES.extend([("a", (1, 10)), ("b", (1, 20))])
    finished(pairs(Pairs()))
    assert (sorted(ACKED), FAILED) == (["a", "b"], [])


def test_a_message_fails_once_if_the_report_of_its_acker_comes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    reports_in = levels.reports_in

    def twice(*arguments: Any) -> Sequence[Any]:
        reports = list(reports_in(*arguments))
        return reports + reports

    monkeypatch.setattr(levels, "reports_in", twice)
    MESSAGES.append(("a", (1, 10)))

    def second(report: Any) -> None:
        if report.txid == 0:
            MESSAGES.append(("b", (1, 20)))

    handle = finished(pairs(FailsTheFirst()), on_wave=second)
    assert (ACKED, FAILED) == (["b"], ["a"])
    assert handle.reports[0].tuples_in["pairs"] == 1


def test_a_run_that_another_one_has_overtaken_with_more_ackers_is_refused(tmp_path: Path) -> None:
    plan = prepare_plan(pairs(Pairs()), {}, memory=MemoryStateProvider(), location=str(tmp_path))
    spouts = RichSpouts(plan, lambda: 0.0)
    spout = Mock(record=DecisionRecord(topology="twice", parallelism={"__acker": 2}))
    with pytest.raises(Fenced):
        spouts.open(spout, lambda: None, until_empty=True)
