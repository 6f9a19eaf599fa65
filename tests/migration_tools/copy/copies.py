"""What is copied in the tests of copying, and what a copy must keep."""

from contextlib import closing
from typing import Any

import pytest

from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.testing.conformance.base import entries

FIRST = ["to be or not to be", "that is the question"]
LATER = ["to do", "is to be"]
SERVERS = ["redis", "redis_cluster", pytest.param("hbase", marks=pytest.mark.slow)]


def contents(provider: StateProvider, name: str) -> dict[str, Any]:
    """Everything that a copy must keep: entries, txid and winner of each namespace, and the record's entries."""
    found = {}
    for namespace in provider.namespaces(f"{name}:"):
        with closing(provider.open(namespace)) as storage:
            head = storage.head()
            if head.codec:
                found[namespace] = head.committed, head.winner, head.codec, entries(storage)
    return found
