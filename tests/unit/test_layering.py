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
        ("bolts/base.py", "from anchorbolt.checkpoint.state import X", "checkpoint is not below bolts"),
        ("bolts/base.py", "import anchorbolt.topology", "topology is not below bolts"),
        ("bolts/base.py", "from anchorbolt import engine", "engine is not below bolts"),
        ("bolts/base.py", "from ..engine import X", "engine is not below bolts"),
        ("bolts/base.py", "def f():\n    from anchorbolt.engine import X", "engine is not below bolts"),
        (
            "bolts/base.py",
            "import importlib\nimportlib.import_module('anchorbolt.engine')",
            "engine is not below",
        ),
        (
            "bolts/base.py",
            "if TYPE_CHECKING:\n    from anchorbolt.engine import X",
            "engine is not below bolts",
        ),
        ("tuples.py", "from anchorbolt.bolts.base import X", "bolts is not below the vocabulary"),
        ("serialization/x.py", "from anchorbolt.bolts.base import X", "bolts is not below the vocabulary"),
        ("engine/local.py", "from anchorbolt.testing.faults import X", "testing is not below engine"),
        ("ui/page.py", "from anchorbolt.migration_tools.copy import X", "migration_tools is not below ui"),
        ("migration_tools/copy.py", "from anchorbolt.engine.wave import X", "without running anything"),
        ("bolts/base.py", "from anchorbolt.helpers.x import X", "helpers has no place among the layers"),
        ("engine/local.py", "import pyspark", "pyspark belongs in"),
        ("bolts/sink.py", "def f():\n    from pyspark.sql import DataFrame", "pyspark belongs in"),
        ("state_backends/sqlite.py", "import redis", "redis belongs in"),
        ("state_backends/base.py", "from redis.exceptions import X", "redis belongs in"),
        ("state_backends/redis.py", "import happybase", "happybase belongs in"),
        ("engine/local.py", "from thriftpy2.transport import TSocket", "thriftpy2 belongs in"),
        ("engine/local.py", "import sqlite3", "sqlite3 belongs in"),
        ("engine/local.py", "import yaml", "yaml belongs in"),
        ("topology/builder.py", "from pydantic import BaseModel", "pydantic belongs in"),
        ("engine/local.py", "import rich.progress", "rich belongs in"),
        ("topology/builder.py", "from anchorbolt.config import X", "read the configuration"),
        ("checkpoint/spout.py", "from anchorbolt import config_keys", "read the configuration"),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, file: str, source: str, complaint: str) -> None:
    modules = ["config.py", "config_keys.py", "engine/__init__.py", "topology/__init__.py"]
    found = plant(tmp_path, dict.fromkeys(modules, "") | {file: source})
    assert any(complaint in violation for violation in found), found


def test_what_an_executor_loads_by_a_detour_is_found(tmp_path: Path) -> None:
    found = plant(
        tmp_path,
        {
            "engine/spark/worker.py": "from anchorbolt.engine.stage import X",
            "engine/stage.py": "import anchorbolt.config",
            "config.py": "import pydantic",
        },
    )
    way = "anchorbolt.engine.spark.worker → anchorbolt.engine.stage → anchorbolt.config → pydantic"
    assert any(violation.endswith(way) for violation in found), found


def test_what_an_executor_loads_by_a_package_of_its_own_is_found(tmp_path: Path) -> None:
    found = plant(
        tmp_path,
        {
            "engine/__init__.py": "from anchorbolt.config import X",
            "engine/spark/task.py": "",
            "config.py": "",
        },
    )
    assert any("anchorbolt.engine.spark.task runs on executors" in violation for violation in found), found


def test_what_the_design_allows_is_not_found(tmp_path: Path) -> None:
    allowed = {
        "cli/main.py": "import typer\nfrom anchorbolt.engine.spark.cluster import X\nimport anchorbolt.config",
        "config.py": "import yaml, pydantic\nfrom anchorbolt.errors import X",
        "errors.py": "",
        "serialization/codecs.py": "from anchorbolt.errors import X",
        "tuples.py": "import anchorbolt.serialization.codecs",
        "testing/cluster.py": "from anchorbolt.engine.local import X\nimport anchorbolt.config",
        "engine/__init__.py": "",
        "engine/local.py": "from anchorbolt.config import X\nfrom anchorbolt.topology.graph import Y",
        "engine/spark/cluster.py": "import pyspark\nfrom anchorbolt import config",
        "engine/spark/worker.py": "def f():\n    import anchorbolt.bolts.base",
        "topology/graph.py": "import anchorbolt.spouts.base",
        "spouts/base.py": "from anchorbolt.bolts.base import X",
        "spouts/stream.py": "from pyspark.sql import SparkSession",
        "bolts/base.py": "from anchorbolt.spouts.base import X\nfrom . import sink",
        "bolts/sink.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyspark.sql import DataFrame",
        "state_backends/redis.py": "import redis",
        "state_backends/sqlite_files.py": "import sqlite3",
    }
    assert plant(tmp_path, allowed) == []
