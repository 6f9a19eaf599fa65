"""What is decoded of a job's own values, of decision records, and of messages between tasks."""

import datetime as dt
import decimal
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from anchorbolt.bolts.sink import SinkFile
from anchorbolt.checkpoint.decision import Committed, DecisionRecord, Winner
from anchorbolt.checkpoint.state_machine import CheckpointState, Phase
from anchorbolt.engine.task import messages
from anchorbolt.engine.task.messages import Tally
from anchorbolt.errors import BoltError
from anchorbolt.serialization import JsonCodec, MsgpackCodec, pack, unpack
from anchorbolt.serialization.codecs import PickleCodec, Schema, codec_named, tagged
from anchorbolt.state_backends.contract import Seal
from anchorbolt.state_backends.encoding import EntryEncoding
from tests.fuzz import Target
from tests.support.serializers import Money

_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**64,
    -(2**200),
    1.5,
    "text é",
    b"bytes\x00\xff",
    [1, [2, [3, []]]],
    {"a": 1, 2: "b", (1, "c"): None},
    (1, ("two", (3.0,))),
    {1, "a", (2, 3)},
    frozenset({b"x"}),
    dt.datetime(2026, 11, 21, 12, 30, 1, 5, dt.timezone.utc),
    dt.date(2026, 2, 28),
    dt.time(23, 59, 59),
    dt.timedelta(days=-3, microseconds=7),
    decimal.Decimal("-12345.678E+30"),
    uuid.UUID(int=7),
    complex(1, -2),
    list(range(300)),
    {str(number): [number, str(number)] for number in range(40)},
)
_JSON: tuple[Any, ...] = (None, 1, -2.5e300, "text é", [1, ["a", {"b": None}]], {"a": {"b": [True, False]}})
_FILE = SinkFile("out", 1, "file:/checkpoint/anchorbolt/outbox/1-3/out-1.parquet", 12, b"")
_RECORD = DecisionRecord(
    topology="word-count",
    state=CheckpointState(7, Phase.COMMITTING),
    query_id=str(uuid.UUID(int=1)),
    batch_id=7,
    offsets_digest="ab" * 32,
    winners={"word-count:count-0": Winner("a" * 32, 6, Seal(2, 77))},
    namespaces={"word-count:count-0": Committed(7, "a" * 32), "word-count:count-1": Committed(5, "b" * 32)},
    outbox=(_FILE,),
    parallelism={"count": 2},
    schemas={"out": b""},
)
_REPORT = messages.TaskReport(
    ("count", 0), "a" * 32, 9, Tally(3, 4), {"out": Tally(1, 2)}, 10, {("split", "default"): 10}, 20, 300
)
_FAILURE = messages.TaskReport(
    ("count", 1),
    "c" * 32,
    9,
    failure=BoltError("it raised", component="count", task_index=1, tuple_text="…", user_traceback="Traceback …"),
)
_MSGPACK, _AS_JSON = MsgpackCodec(), JsonCodec()
_ENCODING = EntryEncoding("word-count:count-0", _MSGPACK, _MSGPACK)
_JSON_ENCODING = EntryEncoding("word-count:count-0", _AS_JSON, _AS_JSON)
_PICKLE = PickleCodec()
_MONEY = codec_named("tests.support.serializers.MoneySerializer", "valueSerializerClass", for_keys=False)
_THIRD_SCHEMA = Schema(3, lambda key, value, version: [version, value])


def _value(encoding: EntryEncoding) -> Callable[[bytes], Any]:
    return lambda data: encoding.value_from("key", encoding.cached_value("key", data))


def _entry(encoding: EntryEncoding) -> Callable[[bytes], Any]:
    def decode(data: bytes) -> Any:
        key = encoding.key_from(data)
        return encoding.value_from(key, encoding.cached_value(key, data))

    return decode


VALUE_TARGETS = (
    Target("values as msgpack", unpack, [pack(value) for value in _VALUES]),
    Target("values as JSON", _AS_JSON.decode, [_AS_JSON.encode(value) for value in _JSON]),
    Target("entries of a state", _entry(_ENCODING), [pack(value) for value in _VALUES]),
    Target("entries of a state as JSON", _entry(_JSON_ENCODING), [_AS_JSON.encode(value) for value in _JSON]),
    Target(
        "values of several schema versions",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _MSGPACK, _THIRD_SCHEMA)),
        [tagged(pack(value), 1 + number % 3) for number, value in enumerate(_VALUES)],
    ),
    Target(
        "values as pickle",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _PICKLE)),
        [_PICKLE.encode(value) for value in _VALUES],
    ),
    Target(
        "values of a user's serializer",
        _value(EntryEncoding("word-count:count-0", _MSGPACK, _MONEY)),
        [_MONEY.encode(Money(12)), _MONEY.encode(Money(-3, "USD"))],
    ),
    Target(
        "decision records",
        lambda data: DecisionRecord.decode(data, "a fuzzed store"),
        [
            _RECORD.encode(),
            DecisionRecord().encode(),
            replace(_RECORD, state_schemas={"count": 3}).marked_committed().encode(),
        ],
    ),
    Target(
        "messages between tasks",
        messages.decode_message,
        [
            messages.encode_message(
                messages.TuplesMessage(("split", 0), 3, "a" * 32, 0, "default", 2, [["a", "b"], [1, 2], [None, 1.5]])
            ),
            messages.encode_message(messages.ContributionMessage(("split", 0), "a" * 32, 3, b"tree")),
            messages.encode_report(_REPORT),
            messages.encode_report(_FAILURE),
        ],
    ),
)
