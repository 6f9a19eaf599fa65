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

# From the top: a layer imports only what stands below it. Modules directly in the package are the vocabulary, and so
# are the packages in VOCABULARY. Two packages in a line are one layer if SAME_LAYER has them, else strangers.
LAYERS = (
    ("cli",),
    ("ui", "migration_tools"),
    ("testing",),
    ("engine",),
    ("topology",),
    ("transactional",),
    ("checkpoint",),
    ("acker",),
    ("spouts", "bolts"),
    ("state_backends",),
    ("metrics",),
)
VOCABULARY = {"serialization"}
SAME_LAYER = {frozenset({"spouts", "bolts"})}
FORBIDDEN_ANYWAY = {("migration_tools", "engine"): "migrates a store without running anything"}

# Third parties that stay in their rooms: module patterns relative to the package.
ROOMS = {
    "pyspark": ("engine.spark", "engine.spark.*", "spouts.stream"),
    "redis": ("state_backends.redis*",),
    "hiredis": ("state_backends.redis*",),
    "happybase": ("state_backends.hbase*",),
    "Hbase_thrift": ("state_backends.hbase*",),
    "thriftpy2": ("state_backends.hbase*",),
    "sqlite3": ("state_backends.sqlite*",),
    "hypothesis": ("testing.agreement",),
    "pydantic": ("config*", "cli", "cli.*"),
    "yaml": ("config*", "cli", "cli.*"),
    "typer": ("config*", "cli", "cli.*"),
    "rich": ("config*", "cli", "cli.*"),
}

CONFIG = ("config", "config_*")
READS_CONFIG = (*CONFIG, "engine", "engine.*", "cli", "cli.*", "testing", "testing.*")

# What runs on a Spark executor: the workers' side of the engine, and every layer that a task is made of.
ON_EXECUTORS = (
    *("engine.spark.worker*", "engine.spark.task*"),
    *("checkpoint.*", "acker.*", "spouts.*", "bolts.*", "state_backends.*"),
)
NEVER_ON_EXECUTORS = ("pydantic", "typer", "rich", "yaml", *(f"{PACKAGE}.{name}" for name in CONFIG))


def violations(imports: list[Import]) -> list[str]:
    """Return every import that breaks a rule, with the rule."""
    rules: tuple[Callable[[list[Import]], Iterable[str]], ...] = (_order, _rooms, _config, _executors)
    return [violation for rule in rules for violation in rule(imports)]


def _order(imports: list[Import]) -> Iterable[str]:
    ranks = {name: len(LAYERS) - index for index, layer in enumerate(LAYERS) for name in layer}
    for each in imports:
        if not _is_ours(each.imported):
            continue
        importer, imported = _layer(each.importer), _layer(each.imported)
        unknown = {importer, imported} - ranks.keys() - {""}
        if unknown:
            yield f"{each}: {', '.join(sorted(unknown))} has no place among the layers"
        elif (importer, imported) in FORBIDDEN_ANYWAY:
            yield f"{each}: {importer} {FORBIDDEN_ANYWAY[importer, imported]}"
        elif importer == imported or frozenset({importer, imported}) in SAME_LAYER:
            continue
        elif ranks.get(imported, 0) >= ranks.get(importer, 0):
            yield f"{each}: {imported} is not below {importer or 'the vocabulary'}"


def _rooms(imports: list[Import]) -> Iterable[str]:
    for each in imports:
        third_party = each.imported.partition(".")[0]
        rooms = ROOMS.get(third_party)
        if rooms and each.when is not When.FOR_TYPES and not _matches(_relative(each.importer), rooms):
            yield f"{each}: {third_party} belongs in {', '.join(rooms)}"


def _config(imports: list[Import]) -> Iterable[str]:
    for each in imports:
        is_config = _is_ours(each.imported) and _matches(_relative(each.imported), CONFIG)
        if is_config and not _matches(_relative(each.importer), READS_CONFIG):
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
    """Return the layer's package, or "" for what belongs to the vocabulary."""
    first = _relative(module).partition(".")[0]
    if first == "__main__":  # `python -m anchorbolt` is the command by another name
        return "cli"
    if first in VOCABULARY:
        return ""
    return first if any(first in layer for layer in LAYERS) or "." in _relative(module) else ""


def _matches(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch(module, pattern) for pattern in patterns)
