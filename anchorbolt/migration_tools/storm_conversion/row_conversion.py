"""Converts hashes of Storm's in a table of HBase into another table.

HBase can neither rename rows nor change several rows in one step. So nothing is converted in place: the source is only
read, and is the backup. Storm reads the other table after one change of its configuration, `tableName`.

1. Check: convert every entry, and compare it with the target. Refuse a target with any other entry. The entries that a
   killed run has written are equal.
2. Write all entries, `$txid` last.
3. Verify: convert every entry again, and compare it with the target. This shows a Storm that writes meanwhile.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from anchorbolt.errors import StateError
from anchorbolt.migration_tools import Progress
from anchorbolt.migration_tools.base64_to_binary.conversion import Action, HashResult, NamespaceResult
from anchorbolt.migration_tools.base64_to_binary.watched_namespace import STOP_FIRST, hashes_of, txid_of
from anchorbolt.migration_tools.storm_conversion.conversion import ConversionOptions, HashConversion, source_of
from anchorbolt.migration_tools.storm_state import SAMPLE_ENTRIES
from anchorbolt.state_backends.hbase.storm_rows import StormRows


@dataclass
class _Hash:
    key: bytes
    convert: Callable[[list[bytes]], list[bytes]]
    content: str = ""  # the format before; empty for `$txid`, the same text in all formats, and for missing hashes
    note: str = ""
    entries: int = 0
    was_there: bool = False  # whether an earlier run has written all entries

    @property
    def name(self) -> str:
        return self.key.decode("utf-8", "backslashreplace")


class RowConversion:
    """The conversion of one namespace. Call `check`, `write` and `verify`, each for all namespaces of the command."""

    def __init__(
        self, source: StormRows, target: StormRows, namespace: bytes, options: ConversionOptions, progress: Progress
    ) -> None:
        self._source = source
        self._target = target
        self._options = options
        self._progress = progress
        self._name = namespace.decode("utf-8", "backslashreplace")
        types = source.types([*hashes_of(namespace), txid_of(namespace)])
        # Also those that do not exist: the target must not have them either, and a topology may write them.
        self._hashes = [
            _Hash(key, _unchanged) if key == txid_of(namespace) or types[key] == "none" else self._hash(key)
            for key in types
        ]
        if "hash" not in types.values():
            raise self._refusal(
                f"{source.describe()} has no namespace {self._name}: check its name, which Storm makes as "
                "<component>-<task>, and the column family"
            )

    def check(self, *, has_table: bool) -> None:
        """Convert all entries. Raises `MigrationRefused` for one that is refused, `StateError` for another target."""
        for each in self._hashes:
            each.entries, equal, others = self._compared(each, "checking", has_table=has_table)
            each.was_there = equal == each.entries
            if others:
                raise self._refusal(
                    f"{each.name} in {self._target.describe()} has {others:,} entries that are not the conversion of "
                    f"the entries in {self._source.describe()}. Nothing was changed. Name another table"
                )

    def write(self) -> None:
        """Write the entries that the target does not have yet. A call after a killed one finishes it."""
        for each in self._hashes:
            if not each.was_there:
                for page in self._pages(each, "converting"):
                    self._target.write(each.key, page)

    def verify(self) -> None:
        """Raises `StateError` if the target does not have all entries that the source has now."""
        for each in self._hashes:
            if self._compared(each, "comparing") != (each.entries, each.entries, 0):
                raise self._refusal(
                    f"{each.name} in {self._target.describe()} is not the conversion of {self._source.describe()}: "
                    "either of them was written to meanwhile, or rows that were deleted in the target before hide the "
                    f"new ones. {STOP_FIRST}, with the name of another table"
                )

    def result(self) -> NamespaceResult:
        """Return what was done, or would be done in a dry run."""
        action = Action.WOULD_CONVERT if self._options.dry_run else Action.CONVERTED
        return NamespaceResult(
            self._name,
            tuple(
                HashResult(
                    each.name,
                    Action.CONVERTED_BEFORE if each.was_there else action,
                    each.entries,
                    each.content,
                    kept_as=f"{each.name} in the table {self._source.settings.table}",
                    note=each.note,
                )
                for each in self._hashes
                if each.content
            ),
        )

    def _hash(self, key: bytes) -> _Hash:
        found = _Hash(key, _unchanged)
        sample = list(islice(chain.from_iterable(self._source.entries(key)), SAMPLE_ENTRIES))
        source = source_of(sample, found.name, self._options)
        target = self._options.target
        if source is None:
            found.content, found.note = f"storm-{target.value}", "It had this format before, so it was copied"
            return found
        found.content = f"storm-{source.generation.value}"
        found.convert = HashConversion(found.name, source, sample, target, self._options.facts).page
        return found

    def _compared(self, each: _Hash, step: str, *, has_table: bool = True) -> tuple[int, int, int]:
        """Return the numbers of entries, of those that the target has, and of other entries in the target."""
        entries = equal = 0
        for page in self._pages(each, step):
            entries += len(page)
            if has_table:
                stored = self._target.fields(each.key, [field for field, _ in page])
                equal += sum(value == found for (_, value), found in zip(page, stored, strict=True))
        return entries, equal, self._target.length(each.key) - equal if has_table else 0

    def _pages(self, each: _Hash, step: str) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the converted entries; report each page after the caller has processed it."""
        self._progress.begin(f"{step} {each.name}", each.entries or None)
        for page in self._source.entries(each.key):
            converted = each.convert([part for entry in page for part in entry])
            yield list(zip(converted[::2], converted[1::2], strict=True))
            self._progress.advance(len(page))

    def _refusal(self, message: str) -> StateError:
        return StateError(message, namespace=self._name)


def _unchanged(page: list[bytes]) -> list[bytes]:
    return page
