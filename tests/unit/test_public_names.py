"""What a user may import: every public module lists it, and the job author's modules hold these names and no others."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import anchorbolt

SURFACE = {
    "anchorbolt": "__version__",
    "anchorbolt.bolts": """
        BaseBasicBolt BaseRichBolt BaseStatefulBolt BasicOutputCollector OutputCollector DataFrameSink ParquetSink
    """,
    "anchorbolt.engine": "LocalCluster RunHandle SparkCluster",
    "anchorbolt.spouts": "Spout StreamSpout",
    "anchorbolt.state_backends": "AttemptState KeyValueState Serializer State",
    "anchorbolt.topology": "BoltDeclarer Topology TopologyBuilder",
}


def public_modules() -> list[str]:
    found = pkgutil.walk_packages(anchorbolt.__path__, f"{anchorbolt.__name__}.")
    return [
        anchorbolt.__name__,
        *(m.name for m in found if not any(p.startswith("_") for p in m.name.split("."))),
    ]


@pytest.mark.parametrize("name", public_modules())
def test_a_public_module_lists_the_names_that_it_has(name: str) -> None:
    module = importlib.import_module(name)
    assert hasattr(module, "__all__"), f"{name} has no __all__"
    assert [listed for listed in module.__all__ if not hasattr(module, listed)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@pytest.mark.parametrize("name", SURFACE)
def test_a_job_authors_module_holds_these_names(name: str) -> None:
    assert sorted(importlib.import_module(name).__all__) == sorted(SURFACE[name].split())
