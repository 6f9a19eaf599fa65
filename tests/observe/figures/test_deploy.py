"""The metrics that the alerts, the dashboard and the page name exist."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from anchorbolt.engine import RunHandle
from tests.cli.command import ROOT

NAME = re.compile(r"\banchorbolt_[a-z_]+")
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


@pytest.fixture
def names(ended: RunHandle) -> set[str]:
    """All names, those of a run with a source that tells its backlog included."""
    ended.observe().figures.add(
        replace(ended.reports[-1], source_offsets_behind={"words": 3}, source_files_waiting={"lines": 4}), []
    )
    registry = CollectorRegistry()
    registry.register(ended.collector())
    return set(NAME.findall(generate_latest(registry).decode()))


@pytest.mark.parametrize(
    "file",
    [
        *("deploy/prometheus/alerts.yml", "deploy/grafana/anchorbolt.json"),
        *("docs/operating.md", "docs/operating_reference.md"),
    ],
)
def test_each_metric_that_is_named_exists(file: str, names: set[str]) -> None:
    named = set(NAME.findall((ROOT / file).read_text()))
    named = {name for name in named if not name.startswith("anchorbolt_user_")}
    assert named
    assert named - names == set()


def test_the_page_names_each_metric(names: set[str]) -> None:
    page = (ROOT / "docs" / "operating_reference.md").read_text()
    page = page.replace("`…_", "`anchorbolt_state_")
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names if not name.startswith("anchorbolt_user_")}
    missing = {name for name in shown if name not in page and f"{name}_total" not in names}
    assert missing == set()


def test_each_alert_has_its_section() -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    page = (ROOT / "docs" / "operating.md").read_text()
    assert len(rules) == 4
    for rule in rules:
        assert f"### {rule['alert']}\n" in page
        assert f"docs/operating.md#{rule['alert'].lower()}" in rule["annotations"]["description"]


def test_the_dashboard_is_json_with_a_query_in_each_panel() -> None:
    dashboard = json.loads((ROOT / "deploy" / "grafana" / "anchorbolt.json").read_text())
    assert all(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
