"""Converts each hash of some namespaces into a temporary one, then swaps them and keeps the source as a backup.

The source does not change before the swap. A connection that watches the hash reads it; each page that is written to
the temporary hash is read back and compared, and at the end the entries are counted. Then:

- On a single server, and in a cluster if the namespaces have one hash tag, one transaction swaps all hashes: it renames
  `<ns>` to `<ns>_old`, and the temporary hash to `<ns>`.
- In a cluster without a hash tag the backup is a copy, written under a temporary name, read back, and then renamed to
  `<ns>_old`. One transaction for each hash then renames the temporary hash to `<ns>`; if the second transaction fails,
  the first is undone. A run that is killed in between leaves a backup that equals its hash; the next run finishes it.

A transaction fails if a key that it depends on has changed since it was first read. Rejected: locks, which a killed run
leaves behind; scripts, which stall the server; DUMP and RESTORE, which fail on large hashes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import HashResult
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import (
    DROPPED,
    STOP_FIRST,
    WatchedNamespace,
    backup_of,
    hashes_of,
    txid_of,
)
from anchorbolt.state_backends.redis.storm_hashes import FieldsAndValues, HashConnection, RedisHashes, shown
from anchorbolt.storm.kryo.stored_form import Content


class SwappedNamespaces(WatchedNamespace):
    """Replaces hashes by their conversions."""

    def __init__(
        self,
        hashes: RedisHashes,
        namespaces: Sequence[bytes],
        progress: Progress,
        content: Content | None,
        *,
        dry_run: bool,
    ) -> None:
        super().__init__(hashes, namespaces, progress, content, dry_run=dry_run)
        self._ready: dict[bytes, int] = {}  # the number of entries of each hash that can be swapped
        self._backed_up: set[bytes] = set()  # hashes with a backup by an earlier run

    def check_named(self, namespace: bytes, types: Mapping[bytes, str]) -> None:
        """Refuse a namespace that does not exist, or that is a backup. `types` are the result of `types()`."""
        self._namespace = namespace  # messages name it
        of = namespace.removesuffix(b"_old")
        if of not in (namespace, b"") and self._hashes.types([of])[of] != "none":
            raise self.refusal(
                f"{shown(namespace)} is the backup of {shown(of)}, and stays as it is: name only {shown(of)}"
            )
        keys = *hashes_of(namespace), *map(backup_of, hashes_of(namespace)), txid_of(namespace)
        if all(types[key] == "none" for key in keys):
            raise self.refusal(
                f"{self._hashes.address} has no namespace {shown(namespace)}: check its name, which Storm makes as "
                "<component>-<task>, and the number of the database"
            )

    def replaced(self, present: Iterable[bytes], convert: Callable[[bytes], HashResult]) -> list[HashResult]:
        """Call `convert` for each hash, then swap all that are ready. Raise `StateError` if something has changed."""
        # Watch also missing keys: a topology writes to all of them.
        for key in self.keys:
            self.on(key)
            self.on(backup_of(key))
        txids = self._txids()
        if self.together:
            self.on(self.keys[0]).watch(*map(txid_of, self._namespaces))
        results = [convert(key) for key in present]
        # If each key has its own connection, no transaction can depend on the transaction ids.
        after = self._txids()
        for namespace in self._namespaces:
            if after[namespace] != txids[namespace]:
                raise self.changed(txid_of(namespace))
        self._swap()
        return results

    def has_backup(self, key: bytes) -> bool:
        """Return whether an earlier run, or another tool, has left a backup of a hash. Refuse keys that expire."""
        backup = backup_of(key)
        found = self.on(backup).exists(backup)
        self.check_stay(key, backup)
        if found:
            self._backed_up.add(key)
        return found

    def converted(self, key: bytes, convert: Callable[[FieldsAndValues], FieldsAndValues]) -> int:
        """Convert a hash into its temporary hash, and return the number of entries."""
        return self.fill(key, key, f"converting {shown(key)}", convert)

    def is_ready(self, key: bytes, entries: int) -> None:
        """Let the swap include a converted hash; copy its backup if it cannot be renamed."""
        if self._dry_run:
            return
        self._ready[key] = entries
        if not (self.together or key in self._backed_up):
            self.copied(key, backup_of(key))

    def _txids(self) -> dict[bytes, list[bytes | None]]:
        return {each: self._hashes.fields(txid_of(each), [b"commit", b"prepare"]) for each in self._namespaces}

    def _swap(self) -> None:
        """Rename all temporary hashes to their final names, if nothing has changed."""
        copied = [] if self.together else [key for key in self._ready if key not in self._backed_up]
        for key in copied:
            self._publish(key)
        swapped: list[bytes] = []
        for keys in self.groups(list(self._ready)):
            connection = self.on(keys[0])
            commands = [command for key in keys for command in self._swap_commands(key, connection)]
            if not connection.transaction(commands):
                for key in swapped:
                    self._swap_back(key)
                # These backups copy outdated data. After any other error they stay: the swap may have happened.
                self._hashes.remove(list(map(backup_of, copied)))
                raise self.changed(*keys)
            swapped += keys

    def _swap_back(self, key: bytes) -> None:
        """Undo the swap of one hash in a cluster after the next hash's transaction failed."""
        with self._hashes.connection(key) as connection:
            connection.watch(key)
            is_ours = connection.length(key) == self._ready[key]
            commands = [("RENAME", key, self.temporary_of(key)), ("RENAME", self.temporary_of(key, DROPPED), key)]
            if not (is_ours and connection.transaction(commands)):
                raise self.refusal(
                    f"{shown(key)} was written to right after it had been converted, and before the rest of its "
                    f"namespace was. {STOP_FIRST}"
                )

    def _publish(self, key: bytes) -> None:
        """Rename the copy of a hash to the name of its backup."""
        backup = backup_of(key)
        self.watch_temporary(backup, self._ready[key], self.on(backup))
        if not self.on(backup).transaction([("RENAMENX", self.temporary_of(backup), backup)]):
            raise self.changed(backup)

    def _swap_commands(self, key: bytes, connection: HashConnection) -> list[tuple[bytes | str, ...]]:
        self.watch_temporary(key, self._ready[key], connection)
        put = ("RENAME", self.temporary_of(key), key)
        if self.together and key not in self._backed_up:
            return [("RENAMENX", key, backup_of(key)), put]
        # RENAME onto a large hash blocks the server while it deletes the hash. So rename it, then UNLINK it.
        dropped = self.temporary_of(key, DROPPED)
        self.temporary.append(dropped)
        return [("RENAME", key, dropped), put]
