"""Opens file systems without a JVM: `pyarrow.fs` for object stores, `fsspec` for HDFS. Nothing here knows Hadoop.

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

_CONNECT_S, _ANSWER_S = 10, 60
_APPEND_BYTES = 16 << 20
_MOST_OPEN = 16

Option = str | bool | int | Secret


@dataclass(frozen=True)
class Store:
    """A file system that a worker can open.

    Attributes:
        kind: "s3", "gs", "azure" or "webhdfs".
        prefix: Comes before the path of each file: a bucket or container; empty for HDFS.
        options: Arguments of the client library.
        addresses: Of HDFS's NameNodes, each `host:port`; one of them is active.
    """

    kind: str
    prefix: str = ""
    options: tuple[tuple[str, Option], ...] = ()
    addresses: tuple[str, ...] = ()


def open_store(store: Store) -> FileSystem:
    """Return the file system. Raises `ConfigError` if a library is missing, `OSError` if no NameNode is active."""
    if store.kind != "webhdfs":
        return _object_store(store)
    for address in store.addresses[:-1]:
        try:
            found = _web_hdfs(store, address)
            found.get_file_info("/")
        except OSError:  # it is down, or a standby
            continue
        return found
    return _web_hdfs(store, store.addresses[-1])


@lru_cache(_MOST_OPEN)
def _object_store(store: Store) -> FileSystem:
    from pyarrow import fs

    kinds = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "azure": "AzureFileSystem"}
    kind = getattr(fs, kinds[store.kind], None)
    if kind is None:
        raise ConfigError(f"pyarrow on this machine was built without {kinds[store.kind]}. Install it from PyPI.")
    options = _revealed(store)
    if store.kind == "s3":
        if not {"region", "endpoint_override"} & options.keys():
            options["region"] = fs.resolve_s3_region(store.prefix)
        try:
            delayed: FileSystem = kind(**options, allow_delayed_open=True)  # one request for a small file, not three
        except TypeError:  # pyarrow 18 does not have the option
            pass
        else:
            return delayed
    opened: FileSystem = kind(**options)
    return opened


@lru_cache(_MOST_OPEN)
def _web_hdfs(store: Store, address: str) -> FileSystem:
    missing = [name for name in ("fsspec", "requests") if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"tasks write to HDFS with the Python packages fsspec and requests, and this machine lacks "
            f"{' and '.join(missing)}. Run there: pip install 'anchorbolt[hdfs]'"
        )
    from fsspec.implementations.webhdfs import WebHDFS  # type: ignore[import-untyped]
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    host, _, port = address.rpartition(":")
    hdfs = WebHDFS(host, int(port), skip_instance_cache=True, **_revealed(store))
    hdfs.blocksize = _APPEND_BYTES  # each append of a file costs two requests and a pipeline of DataNodes
    _limit_waiting(hdfs.session)
    return PyFileSystem(FSSpecHandler(hdfs))


def _limit_waiting(session: Any) -> None:
    """Have requests to a host that is gone fail: by default they wait for ever."""
    from requests.adapters import HTTPAdapter

    class Impatient(HTTPAdapter):
        def send(self, *request: Any, **options: Any) -> Any:
            return super().send(*request, **{**options, "timeout": (_CONNECT_S, _ANSWER_S)})

    for scheme in ("http://", "https://"):
        session.mount(scheme, Impatient())


def _revealed(store: Store) -> dict[str, Any]:
    return {name: value.reveal() if isinstance(value, Secret) else value for name, value in store.options}
