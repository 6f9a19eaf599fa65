"""What the tests of conversions share: a Redis with Storm's state, and the command on it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from anchorbolt.migration_tools.base64_to_binary.conversion import Report
from anchorbolt.migration_tools.storm_conversion.commands import convert
from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions, StormFacts
from anchorbolt.migration_tools.storm_state import StormOptions
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import StormDecoder
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import Store, cluster, redis, start_store, store  # noqa: F401 - fixtures
from tests.support.storm_fixtures import Dump, dumps

ENUMS = {"anchorfix.Colour": ["RED", "GREEN", "BLUE"]}
STATES = {each.generation: each for each in dumps() if not each.shared and not each.name.endswith("wordcount")}
WORD_COUNTS = {each.generation: each for each in dumps() if not each.shared and each.name.endswith("wordcount")}
UNREADABLE = "pojo-1"
SPOUT = "$checkpointspout-1"

Entries = Mapping[bytes, bytes]


def options(
    target: Generation,
    source: Generation | None = None,
    *,
    config: Mapping[str, str] | None = None,
    in_topology: bool | None = None,
    dry_run: bool = False,
) -> ConversionOptions:
    """Return options; `config` is Storm's `provider_config`, with the registered classes."""
    keys, values = (([config[part]] if config and part in config else []) for part in ("keyClass", "valueClass"))
    facts = StormOptions(keys, values, ENUMS, in_topology, None)
    return ConversionOptions(target, source, StormFacts(facts, facts), dry_run)


def converted(at: Store, names: Sequence[str], target: Generation, **more: Any) -> Report:
    command = {name: more.pop(name) for name in ("components", "include_checkpoint_spout", "progress") if name in more}
    return convert(at.hashes, [name.encode() for name in names], options(target, **more), **command)


def load(at: Store, dump: Dump, names: Sequence[str]) -> None:
    """Write these namespaces of a dump into Redis."""
    for name in names:
        for key in (name, f"{name}$prepare", f"{name}$txid"):
            if dump.hashes.get(key):
                at.put(key, dump.hashes[key])


def states(at: Store, *, backups: bool = False) -> dict[str, dict[bytes, bytes]]:
    """Return all hashes, or those that are not backups."""
    return {key: entries for key, entries in at.everything().items() if backups or not key.endswith("_old")}


def forms_of(entries: Entries, generation: Generation, config: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the typed form of each value by the text of the form of its key."""
    classes = config or {}
    keys, values = (
        StormDecoder(generation, registered=[classes[part]] if part in classes else [], enums=ENUMS)
        for part in ("keyClass", "valueClass")
    )
    found = {}
    for stored_key, stored in entries.items():
        field, value = stored_key, stored
        if generation.writes_base64:
            field, value = base64_text.decode(field) or b"", base64_text.decode(value) or b""
        found[shown(keys.decode_key(field).to_json())] = values.decode_value(value).to_json()
    return found


def stated(dump: Dump, name: str, target: Generation) -> dict[str, Any]:
    """Return what a hash holds after a conversion, as the fixture states it: Storm 1.0 has null for a tombstone."""
    namespace, of_prepared, _ = name.partition("$prepare")
    pairs = dump.expected[namespace]["prepare" if of_prepared else "entries"] or []
    is_lost = target is Generation.STORM_1_0
    return {shown(key): {"t": "null"} if is_lost and value["t"] == "tombstone" else value for key, value in pairs}


def shown(form: Any) -> str:
    return json.dumps(form, sort_keys=True)
