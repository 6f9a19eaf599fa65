"""Who may import whom: section 8 of the design. The rules themselves are in tests/support/layers.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import anchorbolt
from tests.support.import_graph import read_imports
from tests.support.layers import PACKAGE, violations

ROOT = Path(anchorbolt.__file__).resolve().parent.parent


def test_the_package_keeps_its_layers() -> None:
    imports = read_imports(ROOT, PACKAGE)
    assert imports, "no import found: is this the right directory?"
    assert violations(imports) == []


def plant(root: Path, files: dict[str, str]) -> list[str]:
    """Write a package of these files (paths below anchorbolt) and return what breaks the rules in it."""
    for name, source in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return violations(read_imports(root, PACKAGE))


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("bolts/base.py", "from anchorbolt.checkpoint.state_machine import X", "checkpoint is not below bolts"),
        ("bolts/base.py", "import anchorbolt.topology", "topology is not below bolts"),
        ("bolts/base.py", "from anchorbolt import engine", "engine is not below bolts"),
        ("bolts/base.py", "from ..engine import X", "engine is not below bolts"),
        ("bolts/base.py", "def f():\n    from anchorbolt.engine import X", "engine is not below bolts"),
        ("bolts/base.py", "import importlib\nimportlib.import_module('anchorbolt.engine')", "engine is not below"),
        ("bolts/base.py", "if TYPE_CHECKING:\n    from anchorbolt.engine import X", "engine is not below bolts"),
        ("streams/tuple.py", "from anchorbolt.bolts.base import X", "bolts is not below streams"),
        ("serialization/x.py", "from anchorbolt.bolts.base import X", "bolts is not below serialization"),
        ("engine/local/cluster.py", "from anchorbolt.testing.faults import X", "testing is not below engine"),
        ("ui/page.py", "from anchorbolt.migration_tools.copy import X", "migration_tools is not below ui"),
        ("migration_tools/copy/steps.py", "from anchorbolt.engine.task.round import X", "without running anything"),
        ("migration_tools/copy/steps.py", "from anchorbolt.cli.main import X", "cli is not below migration_tools"),
        ("bolts/base.py", "from anchorbolt.helpers.x import X", "helpers has no place among the layers"),
        ("topology/graph.py", "from anchorbolt.transactional.builder import X", "transactional is not below"),
        ("checkpoint/spout.py", "from anchorbolt.topology import X", "topology is not below checkpoint"),
        ("util/messages.py", "from anchorbolt.streams.tuple import X", "streams is not below util"),
        ("engine/submit/plan.py", "from anchorbolt.storm.kryo import X", "read what storm reads"),
        ("engine/local/cluster.py", "import pyspark", "pyspark belongs in"),
        ("bolts/sink.py", "def f():\n    from pyspark.sql import DataFrame", "pyspark belongs in"),
        ("state_backends/sqlite/storage.py", "import redis", "redis belongs in"),
        ("state_backends/contract.py", "from redis.exceptions import X", "redis belongs in"),
        ("state_backends/redis/client.py", "import happybase", "happybase belongs in"),
        ("engine/local/cluster.py", "from thriftpy2.transport import TSocket", "thriftpy2 belongs in"),
        ("engine/local/cluster.py", "import sqlite3", "sqlite3 belongs in"),
        ("engine/local/cluster.py", "import yaml", "yaml belongs in"),
        ("topology/builder.py", "from typer import Typer", "typer belongs in"),
        ("engine/local/cluster.py", "import rich.progress", "rich belongs in"),
        ("topology/builder.py", "from anchorbolt.config.loading import X", "read the configuration"),
        ("checkpoint/spout.py", "from anchorbolt.config import checks", "read the configuration"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    modules = [
        "config/__init__.py",
        "config/loading.py",
        "config/checks.py",
        "engine/__init__.py",
        "topology/__init__.py",
    ]
    found = plant(tmp_path, dict.fromkeys(modules, "") | {file: source})
    assert any(complaint in violation for violation in found), found


def test_what_an_executor_loads_by_a_detour_is_found(tmp_path: Path) -> None:
    found = plant(
        tmp_path,
        {
            "engine/spark/worker.py": "from anchorbolt.engine.task.bolt_task import X",
            "engine/task/bolt_task.py": "import anchorbolt.config.loading",
            "config/loading.py": "import yaml",
        },
    )
    way = "anchorbolt.engine.spark.worker → anchorbolt.engine.task.bolt_task → anchorbolt.config.loading → yaml"
    assert any(violation.endswith(way) for violation in found), found


def test_what_an_executor_loads_by_a_package_of_its_own_is_found(tmp_path: Path) -> None:
    found = plant(
        tmp_path,
        {
            "engine/__init__.py": "from anchorbolt.config.loading import X",
            "engine/task/round.py": "",
            "config/__init__.py": "",
            "config/loading.py": "",
        },
    )
    assert any("anchorbolt.engine.task.round runs on executors" in violation for violation in found), found


def test_what_the_design_allows_is_not_found(tmp_path: Path) -> None:
    allowed = {
        "cli/main.py": "import typer\nfrom anchorbolt.engine.spark.cluster import X\nimport anchorbolt.config.loading",
        "config/__init__.py": "",
        "config/loading.py": "import yaml\nfrom anchorbolt.errors import X",
        "errors.py": "",
        "serialization/codecs.py": "from anchorbolt.errors import X",
        "serialization/schema.py": "import anchorbolt.serialization.codecs",
        "testing/cluster.py": "from anchorbolt.engine.local.cluster import X\nimport anchorbolt.config.loading",
        "engine/__init__.py": "",
        "engine/local/cluster.py": "from anchorbolt.config.loading import X\nfrom anchorbolt.topology.graph import Y",
        "engine/spark/cluster.py": "import pyspark\nfrom anchorbolt import config",
        "engine/spark/worker.py": "def f():\n    import anchorbolt.bolts.base",
        "topology/graph.py": "import anchorbolt.spouts.base",
        "spouts/base.py": "from anchorbolt.bolts.base import X",
        "spouts/stream.py": "from pyspark.sql import SparkSession",
        "bolts/base.py": "from anchorbolt.spouts.base import X\nfrom . import sink",
        "bolts/sink.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
        "state_backends/redis/client.py": "import redis",
        "state_backends/sqlite/database_file.py": "import sqlite3",
    }
    assert plant(tmp_path, allowed) == []
