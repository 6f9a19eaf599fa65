"""Storm's Redis or HBase, what real Storm left there, and what an import makes of it."""

import base64
import datetime as dt
import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from decimal import Decimal
from typing import Any

import pytest

from anchorbolt.migration_tools.storm_import import StormImportReport, import_storm_state
from anchorbolt.migration_tools.storm_state import StormOptions
from anchorbolt.migration_tools.topology_inspection import read_topology
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.redis.provider import RedisStateProvider
from anchorbolt.streams.hashing import destination_of, stable_hash
from anchorbolt.testing.conformance.base import entries
from tests.migration_tools.conftest import MSGPACK
from tests.migration_tools.storm_data import Entries, integer, storm_1_2, string
from tests.servers.redis_server import RedisServer
from tests.support.storm_fixtures import Dump, dumps
from tests.support.storm_hbase import StormTable

OPTIONS = StormOptions((), (), {"anchorfix.Colour": ["RED", "GREEN", "BLUE"]}, None, None)
WORD_COUNTS = [each for each in dumps() if each.name.endswith("wordcount")]
SPOUT = "$checkpointspout-1"

Load = Callable[[Mapping[str, Mapping[bytes, bytes]]], None]


class _RedisPlace:
    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._client = server.client()

    def provider(self) -> RedisStateProvider:
        return RedisStateProvider(host=self._server.host, port=self._server.port)

    def put(self, name: str, fields: Mapping[bytes, bytes]) -> None:
        self._client.delete(name)
        if fields:
            self._client.hset(name, mapping=dict[Any, Any](fields))

    def close(self) -> None:
        self._client.close()


@pytest.fixture(params=["redis_database", pytest.param("hbase_server", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Iterator[_RedisPlace | StormTable]:
    """The Redis, or the table of HBase, with Storm's state."""
    server = request.getfixturevalue(request.param)
    with closing((_RedisPlace if isinstance(server, RedisServer) else StormTable)(server)) as place:
        yield place


@pytest.fixture
def storm(place: _RedisPlace | StormTable) -> StateProvider:
    """The provider of the place with Storm's state."""
    return place.provider()


@pytest.fixture
def load(place: _RedisPlace | StormTable) -> Load:
    """Replace hashes of Storm's."""

    def loaded(hashes: Mapping[str, Mapping[bytes, bytes]]) -> None:
        for name, fields in hashes.items():
            place.put(name, fields)

    return loaded


def txids(committed: int | None, prepared: int | None) -> dict[bytes, bytes]:
    numbers = {b"commit": committed, b"prepare": prepared}
    return {field: b"%d" % number for field, number in numbers.items() if number is not None}


def spout(state: str, txid: int, generation: str = "1.2") -> dict[bytes, bytes]:
    """The hash of a checkpoint spout: that of real Storm, with another transaction."""
    ordinal = {"COMMITTED": 0, "COMMITTING": 1, "PREPARING": 2}[state]
    dump = next(each for each in WORD_COUNTS if each.generation.value == generation)
    [(field, stored)] = dump.hashes[SPOUT].items()
    assert stored.endswith(b"\x02\x0a")  # the ordinal + 1 of COMMITTING, and 5
    return {field: stored[:-2] + bytes([ordinal + 1, 2 * txid])}


def python(form: dict[str, Any]) -> Any:
    """The plain value of a stated form."""
    tag, value = str(form["t"]), form.get("v", "")
    if tag in ("int", "long", "short", "byte", "biginteger"):
        return int(value)
    if tag in ("float", "double"):
        return struct.unpack(">f" if tag == "float" else ">d", bytes.fromhex(form["bits"]))[0]
    if tag in ("list", "array"):
        return list(map(python, value))
    simple: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "bytes": lambda: base64.b64decode(value),
        "bigdecimal": lambda: Decimal(value),
        "date": lambda: dt.datetime.fromtimestamp(0, dt.timezone.utc) + dt.timedelta(milliseconds=int(value)),
        "uuid": lambda: uuid.UUID(value),
        "set": lambda: set(map(python, value)),
        "map": lambda: {python(key): python(one) for key, one in value},
        "optional": lambda: python(value) if form["present"] else None,
    }
    return simple[tag]() if tag in simple else value


def stated(dump: Dump, namespace: str, *, rolls_forward: bool = True) -> dict[Any, Any]:
    """What a namespace holds for Storm's next start, as the fixture states it."""
    expected = dump.expected[namespace]
    pairs = [*expected["entries"], *((expected["prepare"] or ()) if rolls_forward else ())]
    found = {str(key): (python(key), value) for key, value in pairs}
    return {key: python(value) for key, value in found.values() if value["t"] != "tombstone"}


def contents(provider: StateProvider, topology: str = "words") -> dict[str, dict[Any, Any]]:
    """The decoded entries of each namespace of a topology."""
    found = {}
    for name in provider.namespaces(f"{topology}:"):
        with closing(provider.open(name)) as storage:
            if "$" not in name:
                decode = MSGPACK.keys.decode, MSGPACK.values.decode
                found[name] = {decode[0](key): decode[1](value) for key, value in entries(storage).items()}
    return found


def merged(provider: StateProvider, component: str = "count") -> dict[Any, Any]:
    """All entries of a bolt; each must be in the task of its key."""
    tasks = {name: items for name, items in contents(provider).items() if name.startswith(f"words:{component}-")}
    for name, items in tasks.items():
        assert {f"words:{component}-{destination_of(stable_hash(key), len(tasks))}" for key in items} <= {name}
    return {key: value for items in tasks.values() for key, value in items.items()}


def imported(source: StateProvider, target: StateProvider, **options: Any) -> StormImportReport:
    named = {"components": {"count": "count"}, "options": OPTIONS, "codecs": MSGPACK, **options}
    return import_storm_state(source, target, "words", "words", **named)


def is_empty(provider: StateProvider) -> bool:
    snapshot = read_topology(provider, "words", "words")
    return snapshot.stored is None and all(head.committed < 0 for head in snapshot.heads.values())


def numbers(**named: int) -> Entries:
    return {string(word): integer(number) for word, number in named.items()}


class Storm:
    """A topology of Storm 1.2 with two tasks of `count`."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.hashes: dict[str, dict[bytes, bytes]] = {
            SPOUT: spout("COMMITTED", 4),
            "count-3": storm_1_2(numbers(one=1, two=2)),
            "count-4": storm_1_2(numbers(four=4, five=5)),
            "count-3$txid": txids(4, 4),
            "count-4$txid": txids(4, 4),
        }
        self.put()

    def put(self, **more: dict[bytes, bytes]) -> None:
        """Replace hashes: `count_3__prepare` for `count-3$prepare`, `spout` for that of the checkpoint spout."""
        for name, fields in more.items():
            self.hashes[SPOUT if name == "spout" else name.replace("__", "$").replace("_", "-")] = fields
        self.load(self.hashes)


@pytest.fixture
def topology(load: Load) -> Storm:
    return Storm(load)


COMMITTED = {"one": 1, "two": 2, "four": 4, "five": 5}
