"""The reads of a starting driver: before it writes anything, and after it has claimed the topology."""

import time
from collections.abc import Iterator
from dataclasses import replace

from anchorbolt.checkpoint.custom_state import CUSTOM_HEADER
from anchorbolt.checkpoint.decision import DecisionRecord
from anchorbolt.checkpoint.decision_log import DecisionLog
from anchorbolt.checkpoint.ports import Layout, Namespaces
from anchorbolt.checkpoint.startup_checks import Expected, Found, namespace_problems, record_problems
from anchorbolt.errors import AnchorboltError, CodecMismatch, StateRegressed
from anchorbolt.state_backends.scope import Fence

_TRIES = 5
_PAUSE_S = 0.3

Records = tuple[DecisionRecord | None, DecisionRecord | None]


class Startup:
    """Reads records and namespaces, and raises the first reason to refuse the start."""

    def __init__(
        self, layout: Layout, log: DecisionLog, namespaces: Namespaces, query_id: str, *, accept_new: bool
    ) -> None:
        self._layout = layout
        self._log = log
        self._namespaces = namespaces
        self._query_id = query_id
        self._expected = Expected(
            layout.topology, {}, layout.parallelism, layout.schema_versions, accept_new_query=accept_new
        )

    def refuse_early(self) -> None:
        """Check everything before anything is written, the fence included.

        While an older driver commits, a store can look inconsistent. So a refusal counts only if the records have not
        changed meanwhile. Raises the first reason to refuse the start.
        """
        for number in range(1, _TRIES + 1):
            records = self._log.load()
            try:
                self._refuse_by_namespaces(records)
                return
            except (StateRegressed, CodecMismatch):
                if number == _TRIES or self._log.load() == records:
                    raise
                time.sleep(_PAUSE_S)

    def raise_fence(self, fence: Fence) -> Found:
        """Raise the fence in every namespace, then read, then check the namespaces again. Raises as `refuse_early`."""
        records = self._log.load()
        self._open(records)
        heads = self._namespaces.raise_fence(fence)
        found = Found(*records, self._query_id, heads, self._log.namespace, fence.generation)
        _raise_first(namespace_problems(self._with_headers(), found))
        return found

    def _refuse_by_namespaces(self, records: Records) -> None:
        _raise_first(record_problems(self._expected, Found(*records, self._query_id)))
        self._open(records)
        heads = self._namespaces.heads()
        found = Found(*records, self._query_id, heads, self._log.namespace, self._log.stored_generation())
        _raise_first(namespace_problems(self._with_headers(), found))

    def _open(self, records: Records) -> None:
        of_records = (name for record in records if record is not None for name in record.namespaces)
        self._namespaces.open(sorted({*self._layout.tasks, *of_records}))

    def _with_headers(self) -> Expected:
        headers = {
            name: CUSTOM_HEADER if self._namespaces.is_custom(name) else header
            for name, header in self._layout.headers.items()
        }
        return replace(self._expected, headers=headers)


def _raise_first(problems: Iterator[AnchorboltError]) -> None:
    for problem in problems:
        raise problem
