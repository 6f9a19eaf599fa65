"""State in SQLite: one file per namespace under a directory of one machine, the embedded default.

This must never be used over a network file system.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anchorbolt.errors import ConfigError, StateCorrupted, StateRegressed
from anchorbolt.state_backends import rules
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.sqlite.database_file import SqliteFile
from anchorbolt.state_backends.sqlite.file_systems import network_file_system
from anchorbolt.state_backends.sqlite.storage import SqliteStateStorage

_SUFFIX = ".sqlite"


@dataclass(frozen=True)
class SqliteStateProvider(StateProvider):
    """Keeps each namespace in a file `<namespace>.sqlite` of `directory`, with ":" in the name replaced by "@".

    A commit that has returned survives the loss of power (`synchronous=FULL`).

    Attributes:
        directory: Directory of the files; created by the first write. A relative path is resolved against the
            current directory of the process that creates the provider.
        timeout_ms: How long a call waits, in milliseconds, for another process that is writing to the same namespace.
    """

    directory: str
    timeout_ms: int = 5000

    shared_by_machines = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", os.path.abspath(self.directory))

    def open(self, namespace: str) -> SqliteStateStorage:
        """Open a namespace. Raises `ConfigError` for a directory on a network file system or an impossible name."""
        rules.check_namespace(namespace)
        if kind := network_file_system(self.directory):
            raise ConfigError(
                f"the state directory {self.directory} is on a network file system ({kind}), on which SQLite's locks "
                "cannot be relied on: choose a directory on a local disk, or the provider redis",
                key="topology.state.provider.config.directory",
            )
        return SqliteStateStorage(self._path(namespace), namespace, self.timeout_ms)

    def namespaces(self, prefix: str = "") -> Iterator[str]:
        for path in sorted(Path(self.directory).glob(f"*{_SUFFIX}")):
            namespace = path.name[: -len(_SUFFIX)].replace("@", ":")
            if namespace.startswith(prefix) and self._path(namespace) == path:
                file = SqliteFile(path, namespace, self.timeout_ms)
                try:
                    with file.reading() as connection:
                        holds_anything = connection is not None
                except (StateCorrupted, StateRegressed):
                    holds_anything = True
                finally:
                    file.close()
                if holds_anything:
                    yield namespace

    def describe(self) -> str:
        return f"SQLite files in {self.directory}"

    def _path(self, namespace: str) -> Path:
        return Path(self.directory, namespace.replace(":", "@") + _SUFFIX)
