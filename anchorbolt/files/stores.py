"""Opens file systems without a JVM: `pyarrow.fs` for S3, `fsspec` for HDFS. Does not depend on Hadoop.

`docs/decisions/file-systems-of-workers.md` has the reasons and the figures.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anchorbolt.errors import ConfigError
from anchorbolt.util.secret import Secret

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_MOST_OPEN = 16

Option = str | bool | int | Secret


@dataclass(frozen=True)
class Store:
    """A file system that a worker can open.

    Attributes:
        kind: "s3" or "webhdfs".
        prefix: Prefix of the path of each file: a bucket; empty for HDFS.
        options: Arguments of the client library.
        addresses: Of HDFS's NameNodes, each `host:port`; one of them is active.
    """

    kind: str
    prefix: str = ""
    options: tuple[tuple[str, Option], ...] = ()
    addresses: tuple[str, ...] = ()


def open_store(store: Store) -> FileSystem:
    """Return the file system. Raises `ConfigError` if a library is missing or refuses the options.

    Raises `OSError` if a server does not answer; most servers are contacted only when a file is used.
    """
    try:
        return _web_hdfs(store) if store.kind == "webhdfs" else _s3(store)
    except (ValueError, TypeError, ImportError) as error:  # an older pyarrow lacks some options
        text = str(error)
        for _, value in store.options:
            text = text.replace(value.reveal(), "***") if isinstance(value, Secret) else text
        raise ConfigError(f"{store.kind} {store.prefix} cannot be opened: {text}. Correct its settings.") from None


@lru_cache(_MOST_OPEN)
def _s3(store: Store) -> FileSystem:
    from pyarrow import fs

    if not hasattr(fs, "S3FileSystem"):
        raise ConfigError("pyarrow on this machine was built without S3FileSystem. Install it from PyPI.")
    options = _revealed(store)
    if not {"region", "endpoint_override"} & options.keys():
        options["region"] = fs.resolve_s3_region(store.prefix)
    try:
        return fs.S3FileSystem(**options, allow_delayed_open=True)  # one request for a small file, not three
    except TypeError:  # pyarrow 18 does not have the option
        return fs.S3FileSystem(**options)


@lru_cache(_MOST_OPEN)
def _web_hdfs(store: Store) -> FileSystem:
    missing = [name for name in ("fsspec", "requests") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"tasks write to HDFS with the Python packages fsspec and requests, and this machine lacks "
            f"{' and '.join(missing)}. Run there: pip install 'anchorbolt[hdfs]'"
        )
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    from anchorbolt.files.web_hdfs import StrictWebHDFS

    return PyFileSystem(FSSpecHandler(StrictWebHDFS(store.addresses, **_revealed(store))))


def _revealed(store: Store) -> dict[str, Any]:
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in store.options}
