"""The figures of runs on `LocalCluster`, as objects and as Prometheus reads them."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping
from urllib.error import HTTPError

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.local.runner import LocalRunner
from anchorbolt.errors import ConfigError
from anchorbolt.observe.figures.run_figures import WaveFigure
from anchorbolt.observe.figures.tasks import Edge, Figure
from anchorbolt.observe.figures.windows import ALL_TIME, TEN_MINUTES
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.observe.figures.conftest import WAVES, Count


def samples_of(text: str) -> Mapping[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def named(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"anchorbolt_{name}", frozenset({"topology": "figures", **labels}.items())


@pytest.mark.parametrize("window", [ALL_TIME, TEN_MINUTES])
def test_tasks_and_streams_are_counted_for_committed_waves_only(ended: RunHandle, window: str) -> None:
    figures = ended.observe().figures.over(window)
    tasks = {each.task: each for each in figures.tasks}
    assert sum(tasks["count", index][Figure.EXECUTED] for index in range(2)) == 4
    assert tasks["again", 0][Figure.EXECUTED] == tasks["again", 0][Figure.KEYS_STAGED] + 1 == 4
    assert tasks["words", 0][Figure.EMITTED] == 4
    assert tasks["again", 0].capacity > 0
    assert tasks["again", 0].execute_latency_ms == tasks["again", 0][Figure.EXECUTE_MS] / 4
    assert figures.transferred == {Edge("words", "default", "count"): 4, Edge("count", "default", "again"): 4}
    assert (figures.waves[WaveFigure.WAVES], figures.waves[WaveFigure.ROUNDS_FAILED]) == (2, 1)
    assert figures.phases_ms["compute"].count == 2
    assert figures.store_ms["seal"].count == figures.store_ms["stage"].count > 0
    for operation, figure in (("stage", Figure.STAGE_MS), ("seal", Figure.SEAL_MS)):
        of_tasks = sum(each[figure] for each in figures.tasks)
        assert of_tasks == pytest.approx(figures.store_ms[operation].total)
        assert 0 < of_tasks < sum(each[Figure.PREPARE_MS] for each in figures.tasks)


def test_prometheus_reads_them_under_its_names(ended: RunHandle) -> None:
    registry = CollectorRegistry()
    registry.register(ended.collector())
    found = samples_of(generate_latest(registry).decode())
    assert found[named("waves_total")] == 2
    assert found[named("committed_txid")] == 1
    assert found[named("recovery_seconds", action="started")] == ended.recovery.ms / 1000 > 0
    assert found[named("executed_tuples_total", component="again", task="0")] == 4
    assert found[named("received_tuples_total", source="count", stream="default", target="again")] == 4
    assert found[named("wave_phase_seconds_count", phase="commit")] == 2
    assert found[named("wave_phase_seconds_bucket", phase="commit", le="+Inf")] == 2
    assert found[named("run_status", status="finished")] == 1
    assert 0 <= found[named("checkpoint_age_seconds")] < 60


def test_workers_that_stay_have_metrics(ended: RunHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [
        WorkerFigures(0, "here", 4711, 1_000.5, 3, 10, 2_000, 7, {1: 500}),
        WorkerFigures(1, "there", 12, 1_001.5, 2, 0, 0, 0, {}),
    ]
    monkeypatch.setattr(LocalRunner, "workers", lambda runner: workers)
    registry = CollectorRegistry()
    registry.register(ended.collector())
    found = samples_of(generate_latest(registry).decode())
    assert found[named("worker_start_time_seconds", worker="0", host="here", pid="4711")] == 1_000.5
    assert [found[named("worker_tasks", worker=each)] for each in "01"] == [3, 2]
    assert found[named("worker_buffered_bytes", worker="0")] == 10
    assert found[named("worker_cached_entries", worker="0")] == 7
    assert found[named("worker_spilled_bytes_total", worker="0")] == 2_000
    assert found[named("worker_sent_bytes_total", worker="0", to="1")] == 500


def test_what_components_register_is_shown_by_task_and_a_failed_round_adds_nothing(ended: RunHandle) -> None:
    registry = CollectorRegistry()
    registry.register(ended.collector())
    found = samples_of(generate_latest(registry).decode())
    again = {"component": "again", "task": "0"}
    assert found[named("user_words_seen_total", **again)] == 4
    assert found[named("user_last", **again)] == ord("c")
    assert found[named("user_lengths_count", **again)] == found[named("user_lengths_sum", **again)] == 4
    assert sum(found.get(named("user_words_seen_total", component="count", task=index), 0) for index in "01") == 4


def test_metrics_are_served_while_a_topology_runs_and_only_they() -> None:
    spout = FeederSpout(["word"], WAVES)
    builder = TopologyBuilder()
    builder.set_spout("words", spout)
    builder.set_bolt("count", Count()).fields_grouping("words", "word")
    conf = {"topology.state.provider": "memory", "topology.metrics.port": 0}
    handle = LocalCluster().submit(builder.create_topology("figures"), conf, until_empty=False)
    address = handle.metrics_address
    assert address is not None
    with urllib.request.urlopen(address, timeout=10) as answer:
        assert "anchorbolt_checkpoint_age_seconds" in answer.read().decode()
    with pytest.raises(HTTPError) as refused:
        urllib.request.urlopen(address.replace("/metrics", "/../etc/passwd"), timeout=10)
    refused.value.close()
    assert refused.value.code == 404
    port = int(address.split(":")[2].partition("/")[0])
    with pytest.raises(ConfigError) as taken:
        LocalCluster().submit(builder.create_topology("other"), {**conf, "topology.metrics.port": port})
    assert taken.value.key == "topology.metrics.port"
    assert handle.stop(60)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=10)
