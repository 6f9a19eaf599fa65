"""The rules of section 8 of the design, as functions from a package's imports to the violations among them.

What is imported for types only (below `if TYPE_CHECKING`) is excused from the rules on third parties and on executors:
it is never loaded, and a sink's signature has to name Spark's DataFrame. It is not excused from the order of layers:
who names a type of a higher layer depends on that layer, loaded or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatch

from tests.support.import_graph import Import, When, parents

PACKAGE = "anchorbolt"

# From the top: a layer imports only what is below it. Packages of one line do not import each other, except SAME_LAYER.
LAYERS = (
    ("cli",),
    ("ui", "migration_tools"),
    ("testing",),
    ("engine",),
    ("transactional",),
    ("topology",),
    ("checkpoint",),
    ("acker",),
    ("spouts", "bolts"),
    ("state_backends",),
    ("metrics",),
)
# The vocabulary is below all layers. Within it, each line imports only the lines after it.
VOCABULARY = (("config", "storm"), ("faults",), ("streams", "serialization"), ("util",), ("errors",))
SAME_LAYER = {frozenset({"spouts", "bolts"})}
FORBIDDEN_ANYWAY = {("migration_tools", "engine"): "migrates a store without running anything"}
# What real Storm wrote concerns no one who runs a topology.
ONLY_FOR = {"storm": {"storm", "migration_tools", "cli"}}

# Third parties that stay in their rooms: module patterns relative to the package.
ROOMS = {
    "pyspark": ("engine.spark", "engine.spark.*", "spouts.stream"),
    "redis": ("state_backends.redis.*",),
    "hiredis": ("state_backends.redis.*",),
    "happybase": ("state_backends.hbase.*",),
    "Hbase_thrift": ("state_backends.hbase.*",),
    "thriftpy2": ("state_backends.hbase.*",),
    "sqlite3": ("state_backends.sqlite.*",),
    "fakeredis": ("testing.fake_redis",),
    "lupa": ("testing.fake_redis",),
    "hypothesis": ("testing.agreement",),
    "yaml": ("config.*", "cli", "cli.*"),
    "typer": ("cli", "cli.*"),
    "rich": ("cli", "cli.*"),
}

# The typed settings are plain data, which workers get; reading them from a configuration is the driver's.
PLAIN_CONFIG = ("config", "config.declaration", "config.providers", "config.settings", "config.secret")
READS_CONFIG = ("config", "config.*", "engine", "engine.*", "cli", "cli.*", "testing", "testing.*")

# What runs on a Spark executor: the workers' side of the engine, and every layer that a task is made of.
ON_EXECUTORS = (
    *("engine.spark.worker*", "engine.task.*"),
    *("checkpoint.*", "acker.*", "spouts.*", "bolts.*", "state_backends.*"),
)
NEVER_ON_EXECUTORS = ("typer", "rich", "yaml", f"{PACKAGE}.config.loading")


def violations(imports: list[Import]) -> list[str]:
    rules: tuple[Callable[[list[Import]], Iterable[str]], ...] = (_order, _rooms, _config, _executors)
    return [violation for rule in rules for violation in rule(imports)]


def _order(imports: list[Import]) -> Iterable[str]:
    lines = LAYERS + VOCABULARY
    ranks = {name: len(lines) - index for index, line in enumerate(lines) for name in line}
    for each in imports:
        if not _is_ours(each.imported):
            continue
        importer, imported = _layer(each.importer), _layer(each.imported)
        unknown = {importer, imported} - ranks.keys() - {""}
        if unknown:
            yield f"{each}: {', '.join(sorted(unknown))} has no place among the layers"
        elif (importer, imported) in FORBIDDEN_ANYWAY:
            yield f"{each}: {importer} {FORBIDDEN_ANYWAY[importer, imported]}"
        elif importer not in ONLY_FOR.get(imported, {importer}):
            yield f"{each}: only {', '.join(sorted(ONLY_FOR[imported]))} read what {imported} reads"
        elif importer == imported or not imported or frozenset({importer, imported}) in SAME_LAYER:
            continue
        elif ranks[imported] >= ranks.get(importer, 0):
            yield f"{each}: {imported} is not below {importer or 'the package itself'}"


def _rooms(imports: list[Import]) -> Iterable[str]:
    for each in imports:
        third_party = each.imported.partition(".")[0]
        rooms = ROOMS.get(third_party)
        if rooms and each.when is not When.FOR_TYPES and not _matches(_relative(each.importer), rooms):
            yield f"{each}: {third_party} belongs in {', '.join(rooms)}"


def _config(imports: list[Import]) -> Iterable[str]:
    for each in imports:
        read = _relative(each.imported)
        is_reading = _is_ours(each.imported) and _layer(each.imported) == "config" and read not in PLAIN_CONFIG
        if is_reading and not _matches(_relative(each.importer), READS_CONFIG):
            yield f"{each}: only the engine, cli and testing read the configuration"


def _executors(imports: list[Import]) -> Iterable[str]:
    """Follow what an executor imports, directly or not, packages' own files included."""
    loads: dict[str, list[str]] = {}
    for each in imports:
        loads.setdefault(each.importer, [])
        if each.when is When.ON_IMPORT:
            loads[each.importer] += [*parents(each.imported), each.imported]
    for module in sorted(loads):
        if _matches(_relative(module), ON_EXECUTORS):
            yield from _forbidden_below(module, loads)


def _forbidden_below(start: str, loads: dict[str, list[str]]) -> Iterable[str]:
    came_from: dict[str, str | None] = {start: None}
    to_visit = [start]
    for module in to_visit:
        for loaded in loads.get(module, []):
            if loaded in came_from:
                continue
            came_from[loaded] = module
            to_visit.append(loaded)
            if _matches(loaded, NEVER_ON_EXECUTORS):
                way = [loaded]
                while (previous := came_from[way[-1]]) is not None:
                    way.append(previous)
                yield f"{start} runs on executors and loads {loaded}: {' → '.join(reversed(way))}"


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


def _relative(module: str) -> str:
    return module.partition(".")[2]


def _layer(module: str) -> str:
    if module.rpartition(".")[2] == "__main__":  # `python -m …` is the command by another name
        return "cli"
    return _relative(module).partition(".")[0]


def _matches(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)
