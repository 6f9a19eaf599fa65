"""A real Prometheus scrapes a run, and loads the alerts."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from anchorbolt.engine import LocalCluster
from anchorbolt.testing import FeederSpout
from anchorbolt.topology import TopologyBuilder
from tests.cli.command import wait_until
from tests.observe.figures.conftest import WAVES, Count
from tests.servers.prometheus_server import ALERTS, PrometheusServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

ALERT_TESTS = Path(__file__).parent / "alerts_test.yml"


def test_prometheus_scrapes_a_run_and_says_when_it_is_down(prometheus_program: str, tmp_path: Path) -> None:
    Count.raised = False
    builder = TopologyBuilder()
    builder.set_spout("words", FeederSpout(["word"], WAVES))
    builder.set_bolt("count", Count(), 2).fields_grouping("words", "word")
    conf = {"topology.state.provider": "memory", "topology.metrics.port": 0}
    handle = LocalCluster().submit(builder.create_topology("scraped"), conf, until_empty=False)
    assert handle.metrics_address is not None
    target = handle.metrics_address.split("/")[2]
    with closing(PrometheusServer(prometheus_program, tmp_path / "prometheus", target)) as server:
        server.start()
        wait_until(lambda: server.value("anchorbolt_waves_total") == 2, "it has scraped both waves")
        assert server.value('sum(anchorbolt_executed_tuples_total{component="count"})') == 4
        assert server.value("anchorbolt_checkpoint_age_seconds") is not None
        [group] = server.get("rules")["groups"]
        wait_until(
            lambda: all(rule["health"] == "ok" for rule in server.get("rules")["groups"][0]["rules"]), "all rules work"
        )
        assert len(group["rules"]) == 4
        handle.stop(60)
        wait_until(
            lambda: any(alert["labels"]["alertname"] == "AnchorboltDown" for alert in server.get("alerts")["alerts"]),
            "the alert is pending",
        )


@pytest.mark.parametrize("arguments", [["check", "rules", str(ALERTS)], ["test", "rules", str(ALERT_TESTS)]])
def test_promtool_accepts_the_alerts_and_they_fire_when_they_should(
    prometheus_program: str, arguments: list[str]
) -> None:
    promtool = str(Path(prometheus_program).with_name("promtool"))
    checked = subprocess.run([promtool, *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
