"""The word count that the tests of copying copy."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from anchorbolt.checkpoint.decision_log import with_change
from anchorbolt.errors import MigrationRefused
from anchorbolt.migration_tools.copy import CopyReport, copy_topology
from anchorbolt.migration_tools.topology_inspection import TopologySnapshot, read_topology
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.testing.conformance.base import entries
from tests.migration_tools.conftest import RunWords

FIRST = ["to be or not to be", "that is the question"]
LATER = ["to do", "is to be"]
SERVERS = ["redis", "redis_cluster", pytest.param("hbase", marks=pytest.mark.slow)]


@dataclass(frozen=True)
class Job:
    """A word count, the store that it runs on, and a store to copy it to."""

    source: StateProvider
    target: StateProvider
    name: str
    run: RunWords

    def copy(self, **options: Any) -> CopyReport:
        return copy_topology(self.source, self.target, self.name, self.name, **options)

    def refuses(self, said: str | None = None, **options: Any) -> bool:
        """Whether the copy is refused with this message."""
        with pytest.raises(MigrationRefused, match=said):
            self.copy(**options)
        return True

    def read(self, provider: StateProvider) -> TopologySnapshot:
        return read_topology(provider, self.name, self.name)

    def contents(self, provider: StateProvider) -> dict[str, Any]:
        """Everything that a copy must keep: entries, txid and winner of each namespace, and the record's entries.

        The records of changes are left out: the copy is one of them.
        """
        found = {}
        for namespace in provider.namespaces(f"{self.name}:"):
            with closing(provider.open(namespace)) as storage:
                head = storage.head()
                if head.codec:
                    of_changes = with_change(namespace, {}, "")
                    kept = {key: value for key, value in entries(storage).items() if key not in of_changes}
                    found[namespace] = head.committed, head.winner, head.codec, kept
        return found

    def is_copied(self) -> bool:
        """Whether both stores have the same content."""
        return self.contents(self.target) == self.contents(self.source)


@pytest.fixture
def job(source: StateProvider, target: StateProvider, name: str, run_words: RunWords) -> Job:
    """A word count that has counted the first sentences."""
    run_words(source, *FIRST)
    return Job(source, target, name, run_words)
