"""What a run has left, compared with what it must be."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import redis

from anchorbolt.checkpoint.decision_log import DecisionLog, record_namespace
from anchorbolt.config import load_conf
from anchorbolt.serialization import MsgpackCodec
from anchorbolt.state_backends.contract import StateProvider, StateStorage
from anchorbolt.state_backends.encoding import EntryEncoding
from anchorbolt.state_backends.provider_factory import provider_from
from anchorbolt.streams.declaration import ACKER_ID
from anchorbolt.testing.conformance.base import entries
from tests.crash.deaths.job import GROUP, NAME, STREAM

_ENCODING = EntryEncoding(NAME, MsgpackCodec(), MsgpackCodec())


def delivered_and_pending(client: redis.Redis) -> tuple[int, int]:
    """Return how many messages the group has delivered, and how many of them are not acked.

    Redis 7.0 forgets `entries-read` when it loads its AOF. But the messages' ids count from 1.
    """
    groups: Any = client.xinfo_groups(STREAM) if client.exists(STREAM) else []
    for group in groups:
        if group["name"] == GROUP.encode():
            return int(group["last-delivered-id"].partition(b"-")[0]), int(group["pending"])
    return 0, 0


def stream_problems(client: redis.Redis, number: int) -> list[str]:
    """Say what is not as it must be in the stream, once all its messages are processed."""
    delivered, pending = delivered_and_pending(client)
    found = []
    if delivered != number:
        found.append(f"the group has delivered {delivered} of {number} messages")
    if pending:
        found.append(f"{pending} messages are still pending")
    return found


def state_problems(conf: dict[str, Any], wanted: Counter[str], *, exactly: bool) -> list[str]:
    """Say what is not as it must be in the state of the topology `NAME`: the counts, the ledger, the record."""
    provider = provider_from(load_conf(conf).settings, shared_by_processes=True, shared_by_machines=False)
    found = _count_problems(provider, wanted, exactly=exactly)
    for component, what in ((ACKER_ID, "open trees"), ("words", "halves that wait")):
        left = {name: len(entries(storage)) for name, storage in _storages(provider, component)}
        if any(left.values()):
            found.append(f"there are {what}: {left}")
    for name in provider.namespaces():
        with closing(provider.open(name)) as storage:
            if storage.head().attempts:
                found.append(f"{name} keeps staged attempts")
    with closing(provider.open(record_namespace(NAME))) as storage:
        record, _ = DecisionLog(storage).load()
    if record is None:
        found.append("there is no record")
    elif record.acked:
        ids = [len(messages.msg_ids()) for messages in record.acked]
        found.append(f"the record still keeps {sum(ids)} ids of acked messages, in {len(ids)} parts")
    return found


def _count_problems(provider: StateProvider, wanted: Counter[str], *, exactly: bool) -> list[str]:
    counted = Counter[str]()
    for _, storage in _storages(provider, "count"):
        for key, data in entries(storage).items():
            word = _ENCODING.key_from(key)
            counted[word] += _ENCODING.value_from(word, _ENCODING.cached_value(word, data))
    found = []
    if lost := wanted - counted:
        found.append(f"{lost.total()} of {wanted.total()} words are lost, such as {next(iter(lost))!r}")
    if (twice := counted - wanted) and exactly:
        found.append(f"{twice.total()} words are counted twice, such as {next(iter(twice))!r}")
    return found


def _storages(provider: StateProvider, component: str) -> Iterator[tuple[str, StateStorage]]:
    for name in sorted(provider.namespaces()):
        if name.startswith(f"{NAME}:{component}-"):
            with closing(provider.open(name)) as storage:
                yield name, storage
