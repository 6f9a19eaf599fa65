"""What the tests of conversions share: a Redis or a table of HBase with Storm's state, and the command on it."""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from anchorbolt.migration_tools.base64_to_binary.conversion import Report
from anchorbolt.migration_tools.storm_conversion.commands import convert, convert_rows
from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions, StormFacts
from anchorbolt.migration_tools.storm_state import StormOptions
from anchorbolt.storm import base64_text
from anchorbolt.storm.kryo import StormDecoder
from anchorbolt.storm.wrapper import Generation
from tests.migration_tools.base64_to_binary.conftest import Store, cluster, redis, start_store, store  # noqa: F401 - fixtures
from tests.servers.hbase_server import HBaseServer
from tests.support.storm_fixtures import Dump, dumps
from tests.support.storm_hbase import StormTable, tables

ENUMS = {"anchorfix.Colour": ["RED", "GREEN", "BLUE"]}
STATES = {each.generation: each for each in dumps() if not each.shared and not each.name.endswith("wordcount")}
WORD_COUNTS = {each.generation: each for each in dumps() if not each.shared and each.name.endswith("wordcount")}
UNREADABLE = "pojo-1"
SPOUT = "$checkpointspout-1"

Entries = Mapping[bytes, bytes]


class Tables:
    """The table of HBase with Storm's state, and the one that a conversion writes."""

    def __init__(self, server: HBaseServer) -> None:
        self._server = server
        self.source = StormTable(server)
        self.target = f"{self.source.name}-new"

    def put(self, key: str, entries: Mapping[bytes, bytes]) -> None:
        self.source.put(key, entries)

    def everything(self) -> dict[str, dict[bytes, bytes]]:
        return self.source.everything()

    def converted(self) -> dict[str, dict[bytes, bytes]]:
        """Return what the conversion has written."""
        if self.target not in tables(self._server):
            return {}
        with closing(StormTable(self._server, self.target)) as table:
            return table.everything()

    def convert_next(self) -> None:
        """Let the next conversion begin with the result of this one."""
        self.source.close()
        self.source = StormTable(self._server, self.target)
        self.target = f"{self.target}-{uuid.uuid4().hex[:4]}"

    def convert(self, *arguments: Any, **more: Any) -> Report:
        source = self.source.provider()
        return convert_rows(source, replace(source, table=self.target), *arguments, **more)

    def close(self) -> None:
        self.source.close()


Place = Store | Tables


@pytest.fixture
def hbase(hbase_server: HBaseServer) -> Iterator[Tables]:
    """An empty table."""
    with closing(Tables(hbase_server)) as place:
        yield place


@pytest.fixture(params=["redis", pytest.param("hbase", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


def convert_next(at: Place) -> None:
    """Let the next conversion begin with the result of this one."""
    if isinstance(at, Tables):
        at.convert_next()
    else:
        at.router.unlink(*(key for key in at.everything() if key.endswith("_old")))


def originals(at: Place) -> dict[str, dict[bytes, bytes]]:
    """Return the entries that were converted."""
    if isinstance(at, Tables):
        return at.everything()
    return {key.removesuffix("_old"): entries for key, entries in at.everything().items() if key.endswith("_old")}


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


def converted(at: Place, names: Sequence[str], target: Generation, **more: Any) -> Report:
    command = {name: more.pop(name) for name in ("components", "include_checkpoint_spout", "progress") if name in more}
    arguments = [name.encode() for name in names], options(target, **more)
    return at.convert(*arguments, **command) if isinstance(at, Tables) else convert(at.hashes, *arguments, **command)


def load(at: Place, dump: Dump, names: Sequence[str]) -> None:
    """Write these namespaces of a dump into the store."""
    for name in names:
        for key in (name, f"{name}$prepare", f"{name}$txid"):
            if dump.hashes.get(key):
                at.put(key, dump.hashes[key])


def states(at: Place) -> dict[str, dict[bytes, bytes]]:
    """Return what the other Storm reads: in Redis all hashes that are not backups, in HBase the other table."""
    if isinstance(at, Tables):
        return at.converted()
    return {key: entries for key, entries in at.everything().items() if not key.endswith("_old")}


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
