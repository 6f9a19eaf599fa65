"""Who may import whom, as CONTRIBUTING.md says."""

import pkgutil
import subprocess
import sys
from fnmatch import fnmatch
from graphlib import TopologicalSorter

import grimp
import pytest

import anchorbolt

# From the top: a layer imports only from the layers below it. Rooms of one line do not import each other, except
# spouts and bolts. The last seven lines are the vocabulary of all others.
LAYERS = (
    ("cli",),
    ("querying",),
    ("ui", "migration_tools"),
    ("testing",),
    ("run",),
    ("observe",),
    ("engine",),
    ("maintenance",),
    ("transactional",),
    ("tracking",),
    ("checkpoint",),
    ("topology",),
    ("windows",),
    ("spouts", "bolts"),
    ("state_backends",),
    ("config", "files", "storm"),
    ("faults",),
    ("streams",),
    ("serialization",),
    ("metrics",),
    ("util",),
    ("errors",),
)

# The rooms of the engine, likewise. `local` runs stream spouts with Spark.
LAYERS_OF_ENGINE = ("local", "spark", "workers", "driver", "sources", "task", "plan")

# The only importers of a module, ours or a third party's, as patterns below `anchorbolt`.
IMPORTERS = {
    "pyspark": (
        *("engine.spark", "engine.spark.*", "files.hadoop.*", "run.spark_cluster", "spouts.base"),
        "querying.state_source",
    ),
    "redis": ("state_backends.redis.*",),
    "hiredis": ("state_backends.redis.*",),
    "happybase": ("state_backends.hbase.*",),
    "Hbase_thrift": ("state_backends.hbase.*",),
    "thriftpy2": ("state_backends.hbase.*",),
    "prometheus_client": ("observe.figures.*", "observe.web.metrics", "run.handle", "run.start"),
    "confluent_kafka": ("bolts.kafka.producer",),
    "starlette": ("ui.actions", "ui.app", "observe.web.*"),
    "uvicorn": ("observe.web.*",),
    "sqlite3": ("state_backends.sqlite.*",),
    "fakeredis": ("testing.fake_redis",),
    "lupa": ("testing.fake_redis",),
    "hypothesis": ("testing.agreement",),
    "pythonjsonlogger": ("util.event_log",),
    "yaml": ("config.*", "cli", "cli.*"),
    "typer": ("cli", "cli.*"),
    "rich": ("cli", "cli.*"),
    # What real Storm wrote concerns nobody who runs a topology.
    "anchorbolt.storm*": ("storm", "storm.*", "migration_tools.*", "cli.*"),
    # A migration never runs anything.
    "anchorbolt.engine*": ("engine*", "observe.*", "run.*", "testing", "testing.*", "ui.*", "cli.*"),
    "anchorbolt.run*": ("engine", "run.*", "testing", "testing.*", "ui.*", "cli.*"),
}
# Workers get the typed settings, which are plain data. Only the driver and the commands read a configuration.
PLAIN_SETTINGS = (
    "config",
    "config.declaration",
    "config.providers",
    "config.settings",
    "config.secret",
    "config.masking",
)
READ_CONFIGURATIONS = ("config", "config.*", "engine.*", "run.*", "cli", "cli.*", "testing", "testing.*", "querying.*")

# What runs on a Spark executor, and what it must never load: the commands and what reads configurations.
ON_EXECUTORS = (
    *("engine.spark.worker*", "engine.task.*"),
    *("transactional.*", "checkpoint.*", "tracking.*", "windows.*", "spouts.*", "bolts.*", "state_backends.*"),
)
NEVER_ON_EXECUTORS = ("typer", "rich", "yaml", "anchorbolt.config.loading")


def matches(module: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(module.removeprefix("anchorbolt."), pattern) for pattern in patterns)


def imports(*, for_types: bool) -> grimp.ImportGraph:
    """Read who imports what, with or without what is imported for types only."""
    graph = grimp.build_graph(
        "anchorbolt", include_external_packages=True, exclude_type_checking_imports=not for_types, cache_dir=None
    )
    for module in graph.modules:
        if module.endswith(".__main__"):  # `python -m …` is a command by another name
            graph.remove_module(module)
    # These have public names of higher rooms, which they import on first use only.
    for package in ("anchorbolt", "anchorbolt.engine"):
        for module in graph.find_modules_directly_imported_by(package):
            graph.remove_import(importer=package, imported=module)
    return graph


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return imports(for_types=False)


def test_a_room_imports_only_from_the_rooms_below_it() -> None:
    # A module that names a type of a higher layer depends on that layer, even if it never loads it.
    graph = imports(for_types=True)
    layers = [grimp.Layer(*line, independent=line != ("spouts", "bolts")) for line in LAYERS]
    assert graph.find_illegal_dependencies_for_layers(layers, containers={"anchorbolt"}) == set()
    rooms = {room.removeprefix("anchorbolt.") for room in graph.find_children("anchorbolt")}
    assert rooms <= {room for line in LAYERS for room in line}
    assert graph.find_illegal_dependencies_for_layers(LAYERS_OF_ENGINE, containers={"anchorbolt.engine"}) == set()
    assert {f"anchorbolt.engine.{room}" for room in LAYERS_OF_ENGINE} == graph.find_children("anchorbolt.engine")


def test_no_module_imports_itself_through_others() -> None:
    graph = imports(for_types=True)
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    TopologicalSorter(modules).prepare()  # raises `CycleError`


@pytest.mark.parametrize("imported", IMPORTERS)
def test_a_module_is_imported_only_in_its_rooms(graph: grimp.ImportGraph, imported: str) -> None:
    found = {
        importer
        for module in graph.modules
        if fnmatch(module, imported)
        for importer in graph.find_modules_that_directly_import(module)
    }
    assert found, "nothing imports it: is its name right?"
    assert {importer for importer in found if not matches(importer, IMPORTERS[imported])} == set()


def test_only_the_driver_and_the_commands_read_a_configuration(graph: grimp.ImportGraph) -> None:
    reading = {module for module in graph.find_descendants("anchorbolt.config") if not matches(module, PLAIN_SETTINGS)}
    assert "anchorbolt.config.loading" in reading
    importers = {importer for module in reading for importer in graph.find_modules_that_directly_import(module)}
    assert {importer for importer in importers if not matches(importer, READ_CONFIGURATIONS)} == set()


def test_an_executor_loads_no_command_and_nothing_that_reads_configurations() -> None:
    found = [module.name for module in pkgutil.walk_packages(anchorbolt.__path__, "anchorbolt.")]
    modules = [module for module in found if matches(module, ON_EXECUTORS)]
    assert "anchorbolt.engine.spark.worker" in modules
    program = f"import sys, {', '.join(modules)}; print(*sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert set(modules) <= set(loaded)
    assert set(NEVER_ON_EXECUTORS) & set(loaded) == set()
