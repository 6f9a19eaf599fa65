"""The steps of a state transaction. Each step is one transaction of the database that locks the namespace's row.

So two steps on a namespace never overlap, and an interrupted step has happened completely or not at all. The module
`anchorbolt.state_backends.rules` decides what a step does and whether it is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from uuid import UUID

from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import Fence, NamespaceHead, ReadPosition, Seal, StagedSlice, StateStorage
from anchorbolt.state_backends.rules import AttemptRecord, Metadata
from postgres_provider.sessions import Server, Session, Sessions, sessions_of

__all__ = ["PostgresStateStorage"]

_KEYS_PER_SELECT = 5000
_UPDATES_PER_DELETE = 20_000

_METADATA = "SELECT id, generation, seq, committed, winner, codec FROM namespaces WHERE namespace = %(namespace)s"

# The updates that an attempt staged hide the committed data. Without an attempt, the comparison is with NULL and finds
# no updates. `LATERAL` with `LIMIT 1`, here and below, finds each key by the index. With a plain join, the planner
# would decide, and it has no statistics of a newly filled table: it would read the whole table for each key.
_LOOK_UP = """
SELECT CASE WHEN staged.found THEN staged.value ELSE entry.value END
FROM unnest(%(keys)b::bytea[]) WITH ORDINALITY AS wanted (key, place)
LEFT JOIN LATERAL (
    SELECT true AS found, value FROM updates
    WHERE namespace_id = %(id)s AND attempt = %(attempt)s AND digest = sha256(wanted.key) LIMIT 1
) AS staged ON true
LEFT JOIN LATERAL (
    SELECT value FROM entries WHERE namespace_id = %(id)s AND digest = sha256(wanted.key) LIMIT 1
) AS entry ON true
ORDER BY wanted.place
"""

_PAGE = """
SELECT digest, key, value FROM entries
WHERE namespace_id = %(id)s AND digest > %(after)b
ORDER BY digest LIMIT %(size)s
"""

# Both queries have a limit before they are joined, so that the cost of a page does not grow with the namespace.
_PAGE_UNDER_ATTEMPT = """
(
    SELECT digest, key, entries.value FROM entries
    LEFT JOIN LATERAL (
        SELECT true AS found FROM updates
        WHERE namespace_id = %(id)s AND attempt = %(attempt)s AND digest = entries.digest LIMIT 1
    ) AS staged ON true
    WHERE namespace_id = %(id)s AND digest > %(after)b AND found IS NULL
    ORDER BY digest LIMIT %(size)s
) UNION ALL (
    SELECT digest, key, value FROM updates
    WHERE namespace_id = %(id)s AND attempt = %(attempt)s AND digest > %(after)b AND value IS NOT NULL
    ORDER BY digest LIMIT %(size)s
)
ORDER BY digest LIMIT %(size)s
"""

_STAGE = """
INSERT INTO updates (namespace_id, attempt, key, value)
SELECT %(id)s, %(attempt)s, key, value FROM unnest(%(keys)b::bytea[], %(values)b::bytea[]) AS slice (key, value)
ON CONFLICT (namespace_id, attempt, digest) DO UPDATE SET value = excluded.value
"""

# Moves the next updates after a digest, at most 2,000 and about 8 MiB, from `updates` to `entries`, and returns the
# digest of the last one. So no statement of a large commit takes long enough to reach the time limit.
_APPLY = """
WITH page AS (
    DELETE FROM updates WHERE ctid = ANY (ARRAY(
        SELECT place FROM (
            SELECT ctid AS place, sum(octet_length(key) + coalesce(octet_length(value), 0)) OVER (
                ORDER BY digest ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS bytes_before
            FROM updates WHERE namespace_id = %(id)s AND attempt = %(attempt)s AND digest > %(after)b
            ORDER BY digest LIMIT 2000
        ) AS candidates WHERE coalesce(bytes_before, 0) < 8388608
    ))
    RETURNING digest, key, value
), put AS (
    INSERT INTO entries (namespace_id, key, value)
    SELECT %(id)s, key, value FROM page WHERE value IS NOT NULL
    ON CONFLICT (namespace_id, digest) DO UPDATE SET value = excluded.value
), deleted AS (
    DELETE FROM entries WHERE ctid = ANY (ARRAY(
        SELECT place FROM page CROSS JOIN LATERAL (
            SELECT ctid AS place FROM entries WHERE namespace_id = %(id)s AND digest = page.digest LIMIT 1
        ) AS entry WHERE page.value IS NULL
    ))
)
SELECT digest FROM page ORDER BY digest DESC LIMIT 1
"""


class PostgresStateStorage(StateStorage):
    """One namespace of a `PostgresStateProvider`."""

    def __init__(self, namespace: str, server: Server) -> None:
        self.namespace = namespace
        self._server = server
        self._sessions: Sessions | None = None
        self._pid = 0

    def head(self) -> NamespaceHead:
        with self._reading() as found:
            return found.head() if found else NamespaceHead()

    def claim(self, seq: int = 0) -> Fence:
        with self._locked() as found:
            fence = Fence(found.metadata.fence.generation + 1, seq)
            found.raise_fence(fence)
            return fence

    def raise_fence(self, fence: Fence) -> NamespaceHead:
        with self._locked() as found:
            rules.check_fence(self.namespace, found.metadata, fence)
            found.raise_fence(fence)
            return found.head()

    def get_many(
        self, keys: Sequence[bytes], attempt: str | None = None, at: ReadPosition | None = None
    ) -> list[bytes | None]:
        with self._reading(attempt, at) as found:
            if found is None:
                return [None] * len(keys)
            values: list[bytes | None] = []
            for start in range(0, len(keys), _KEYS_PER_SELECT):
                rows = found.session.run(
                    _LOOK_UP, id=found.id, attempt=_uuid(attempt), keys=list(keys[start : start + _KEYS_PER_SELECT])
                )
                values += [value for (value,) in rows]
            return values

    def scan(
        self, attempt: str | None = None, page_size: int = 1000, at: ReadPosition | None = None
    ) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield pages of entries. Each page has a transaction of its own, so no transaction is open between pages."""
        after = b""
        while True:
            with self._reading(attempt, at) as found:
                rows = (
                    found.session.run(
                        _PAGE if attempt is None else _PAGE_UNDER_ATTEMPT,
                        id=found.id,
                        attempt=_uuid(attempt),
                        after=after,
                        size=page_size,
                    ).fetchall()
                    if found
                    else []
                )
            if not rows:
                return
            yield [(key, value) for _, key, value in rows]
            after = rows[-1][0]

    def stage(self, staged: StagedSlice) -> Seal:
        rules.check_attempt(staged.attempt)
        with self._locked() as found:
            known = found.records(staged.attempt).get(staged.attempt)
            record = rules.next_record(self.namespace, found.metadata, known, staged)
            found.raise_fence(staged.fence, staged.codec)
            if known is None:
                found.drop_attempts(below=staged.fence)
            if record is not None:  # None: the latest slice was sent again
                found.put_record(staged.attempt, record)
                found.put_updates(staged.attempt, staged.updates)
            known = record or known
            assert known is not None
            return Seal(known.slices, known.checksum)

    def seal(self, fence: Fence, attempt: str, seal: Seal) -> None:
        with self._locked() as found:
            known = found.records(attempt).get(attempt)
            record = rules.sealed_record(self.namespace, found.metadata, known, fence, attempt, seal)
            found.raise_fence(fence)
            found.put_record(attempt, record)

    def commit(self, fence: Fence, txid: int, attempt: str) -> None:
        """Promote the winner. The data does not leave the server."""
        with self._locked() as found:
            known = found.records(attempt).get(attempt)
            apply = rules.check_commit(self.namespace, found.metadata, known, fence, txid, attempt)
            found.raise_fence(fence)
            if apply:  # False: this transaction is already committed
                found.apply(attempt)
                found.drop_attempts()
                found.set_committed(txid, attempt)

    def rollback(self, fence: Fence) -> int:
        with self._locked() as found:
            rules.check_rollback(self.namespace, found.metadata, fence)
            found.raise_fence(fence)
            return found.drop_attempts()

    def write(self, fence: Fence, items: Mapping[bytes, bytes], codec: str) -> None:
        with self._locked() as found:
            rules.check_write(self.namespace, found.metadata, fence, codec)
            found.raise_fence(fence, codec)
            found.put_entries(items)

    def close(self) -> None:
        sessions, self._sessions = self._sessions, None
        if sessions is not None and self._pid == os.getpid():
            sessions.release()

    @contextmanager
    def _reading(self, attempt: str | None = None, at: ReadPosition | None = None) -> Iterator[_Namespace | None]:
        """Read the namespace in one snapshot and check it against `at`. Yields None if it does not exist."""
        with self._process_sessions().reading(self.namespace) as session:
            found = None
            if session is not None:
                found = _found(session, session.run(_METADATA, namespace=self.namespace).fetchall())
            if at is not None:
                metadata = found.metadata if found else Metadata()
                records = found.records(attempt) if found and attempt is not None else {}
                rules.check_reading(self.namespace, metadata, records.get(attempt or ""), attempt, at)
            yield found

    @contextmanager
    def _locked(self) -> Iterator[_Namespace]:
        """Lock the namespace for one transaction, and create it if it does not exist."""
        with self._process_sessions().writing(self.namespace) as session:
            found = None
            while found is None:
                rows = session.run(f"{_METADATA} FOR UPDATE", namespace=self.namespace).fetchall()
                found = _found(session, rows)
                if found is None:
                    # Waits for another process that is creating the namespace. If the step is refused, the rollback
                    # removes the row again.
                    session.run(
                        "INSERT INTO namespaces (namespace) VALUES (%(namespace)s) ON CONFLICT DO NOTHING",
                        namespace=self.namespace,
                    )
            yield found

    def _process_sessions(self) -> Sessions:
        # After a fork, the child needs connections of its own.
        if self._sessions is None or self._pid != os.getpid():
            self._sessions, self._pid = sessions_of(self._server), os.getpid()
        return self._sessions


@dataclass
class _Namespace:
    """A namespace within a transaction. Its row is locked before any change."""

    session: Session
    id: int
    metadata: Metadata

    def head(self) -> NamespaceHead:
        return rules.head_of(self.metadata, self.records())

    def records(self, attempt: str | None = None) -> dict[str, AttemptRecord]:
        """Return the records of all attempts, or of one."""
        rows = self.session.run(
            """
            SELECT attempt, txid, base, generation, seq, slices, checksum, checksum_before, sealed FROM attempts
            WHERE namespace_id = %(id)s AND (%(attempt)s::uuid IS NULL OR attempt = %(attempt)s)
            """,
            id=self.id,
            attempt=_uuid(attempt),
        )
        return {
            name.hex: AttemptRecord(txid, base, Fence(generation, seq), *rest)
            for name, txid, base, generation, seq, *rest in rows
        }

    def raise_fence(self, fence: Fence, codec: str = "") -> None:
        """Raise the fence, and set the format header if the namespace has none."""
        self.metadata = replace(self.metadata, fence=fence, codec=self.metadata.codec or codec)
        self.session.run(
            "UPDATE namespaces SET generation = %(generation)s, seq = %(seq)s, codec = %(codec)s WHERE id = %(id)s",
            id=self.id,
            generation=fence.generation,
            seq=fence.seq,
            codec=self.metadata.codec,
        )

    def set_committed(self, txid: int, attempt: str) -> None:
        self.session.run(
            "UPDATE namespaces SET committed = %(txid)s, winner = %(attempt)s WHERE id = %(id)s",
            id=self.id,
            txid=txid,
            attempt=attempt,
        )

    def put_record(self, attempt: str, record: AttemptRecord) -> None:
        self.session.run(
            """
            INSERT INTO attempts VALUES (%(id)s, %(attempt)s, %(txid)s, %(base)s, %(generation)s, %(seq)s, %(slices)s,
                %(checksum)s, %(checksum_before)s, %(sealed)s)
            ON CONFLICT (namespace_id, attempt) DO UPDATE SET slices = excluded.slices, checksum = excluded.checksum,
                checksum_before = excluded.checksum_before, sealed = excluded.sealed
            """,
            id=self.id,
            attempt=_uuid(attempt),
            generation=record.fence.generation,
            seq=record.fence.seq,
            **{name: value for name, value in record._asdict().items() if name != "fence"},
        )

    def put_updates(self, attempt: str, updates: Mapping[bytes, bytes | None]) -> None:
        keys, values = list(updates), list(updates.values())
        self.session.run(_STAGE, id=self.id, attempt=_uuid(attempt), keys=keys, values=values)

    def put_entries(self, items: Mapping[bytes, bytes]) -> None:
        self.session.run(
            """
            INSERT INTO entries (namespace_id, key, value)
            SELECT %(id)s, key, value FROM unnest(%(keys)b::bytea[], %(values)b::bytea[]) AS written (key, value)
            ON CONFLICT (namespace_id, digest) DO UPDATE SET value = excluded.value
            """,
            id=self.id,
            keys=list(items.keys()),
            values=list(items.values()),
        )

    def apply(self, attempt: str) -> None:
        """Move the attempt's updates into the committed data, a bounded number at a time."""
        after = b""
        while last := self.session.run(_APPLY, id=self.id, attempt=_uuid(attempt), after=after).fetchall():
            [(after,)] = last
            self.session.start_timer()

    def drop_attempts(self, below: Fence | None = None) -> int:
        """Drop all attempts, or those of lower fences; return their number."""
        generation, seq = below or (None, None)
        dropped = self.session.run(
            """
            DELETE FROM attempts WHERE namespace_id = %(id)s
                AND (%(generation)s::bigint IS NULL OR (generation, seq) < (%(generation)s, %(seq)s))
            RETURNING attempt
            """,
            id=self.id,
            generation=generation,
            seq=seq,
        ).fetchall()
        attempts = [attempt for (attempt,) in dropped]
        rows = _UPDATES_PER_DELETE if attempts else 0
        while rows == _UPDATES_PER_DELETE:
            rows = self.session.run(
                """
                DELETE FROM updates WHERE ctid = ANY (ARRAY(
                    SELECT ctid FROM updates WHERE namespace_id = %(id)s AND attempt = ANY (%(attempts)s) LIMIT %(rows)s
                ))
                """,
                id=self.id,
                attempts=attempts,
                rows=_UPDATES_PER_DELETE,
            ).rowcount
            self.session.start_timer()
        return len(attempts)


def _found(session: Session, rows: Sequence[tuple[int, int, int, int, str, str]]) -> _Namespace | None:
    for number, generation, seq, committed, winner, codec in rows:
        return _Namespace(session, number, Metadata(Fence(generation, seq), committed, winner, codec))
    return None


def _uuid(attempt: str | None) -> UUID | None:
    return UUID(attempt) if attempt is not None else None
