"""The manifest of a savepoint: what it holds, and the checksum of each of its files. Pure.

It is written last, so a directory without it is not a savepoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any

from anchorbolt.errors import StateCorrupted
from anchorbolt.state_backends.contract import Fence, NamespaceHead

MANIFEST = "manifest.json"
_VERSION = 1


@dataclass(frozen=True)
class SavedFile:
    """One file of a savepoint, by its path below the savepoint."""

    size: int  # bytes
    checksum: str  # SHA-256 of its content, in hexadecimal digits


@dataclass(frozen=True)
class SavedNamespace:
    """One namespace, as it was committed."""

    committed: int  # txid
    winner: str
    codec: str  # the format header
    fence: tuple[int, int]
    entries: int
    files: tuple[str, ...]  # Parquet files with columns `key` and `value`, both bytes as stored

    @property
    def head(self) -> NamespaceHead:
        return NamespaceHead(Fence(*self.fence), self.committed, self.winner, self.codec)


@dataclass(frozen=True)
class Manifest:
    """What a savepoint holds.

    Attributes:
        topology: Name of the topology.
        prefix: Prefix of its namespaces, without the colon; may be empty.
        created: When it was taken, in ms since 1970.
        txid: The last committed transaction.
        query_id: The streaming query that the state was computed from; empty without one.
        batch_id: The last batch of the query that is in the state; -1 before the first.
        parallelism: Number of tasks by stateful bolt.
        namespaces: All namespaces with committed data, and that of the decision record.
        sources: The files of the checkpoint location that hold the positions of the query's sources.
        files: All files, except the manifest.
    """

    topology: str
    prefix: str
    created: int
    txid: int
    query_id: str
    batch_id: int
    parallelism: Mapping[str, int]
    namespaces: Mapping[str, SavedNamespace]
    sources: tuple[str, ...] = ()
    files: Mapping[str, SavedFile] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """The number of all entries."""
        return sum(each.entries for each in self.namespaces.values())

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.size for each in self.files.values())

    def encode(self) -> bytes:
        content = {"version": _VERSION, **asdict(self)}
        text = json.dumps(content, indent=1, sort_keys=True)
        return json.dumps({"checksum": sha256(text.encode()).hexdigest(), "savepoint": content}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> Manifest:
        """Decode the bytes of `encode`. Raises `StateCorrupted` if they are not whole, or of a later version."""
        try:
            whole = json.loads(data)
            content: dict[str, Any] = whole["savepoint"]
            if content["version"] != _VERSION:
                raise StateCorrupted(
                    f"{where} has version {content['version']!r}; this Anchorbolt reads version {_VERSION}. Use the "
                    "Anchorbolt that took the savepoint, or a later one."
                )
            text = json.dumps(content, indent=1, sort_keys=True)
            if sha256(text.encode()).hexdigest() != whole["checksum"]:
                raise ValueError("its checksum is wrong")
            return cls(
                topology=str(content["topology"]),
                prefix=str(content["prefix"]),
                created=int(content["created"]),
                txid=int(content["txid"]),
                query_id=str(content["query_id"]),
                batch_id=int(content["batch_id"]),
                parallelism={str(name): int(tasks) for name, tasks in content["parallelism"].items()},
                namespaces={str(name): _namespace(each) for name, each in content["namespaces"].items()},
                sources=tuple(map(str, content["sources"])),
                files={
                    _below(name): SavedFile(int(each["size"]), str(each["checksum"]))
                    for name, each in content["files"].items()
                },
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise StateCorrupted(
                f"{where} is not a manifest that anchorbolt wrote: {type(error).__name__}: {error}. Take another "
                "savepoint, or restore the file from a backup."
            ) from error


def _namespace(content: Any) -> SavedNamespace:
    generation, seq = content["fence"]
    return SavedNamespace(
        int(content["committed"]),
        str(content["winner"]),
        str(content["codec"]),
        (int(generation), int(seq)),
        int(content["entries"]),
        tuple(map(_below, content["files"])),
    )


def _below(name: Any) -> str:
    """Return a path below the savepoint. Raises `ValueError` for one that leaves it."""
    if not isinstance(name, str) or name.startswith("/") or ".." in name.split("/"):
        raise ValueError(f"{name!r} is not a path below the savepoint")
    return name
