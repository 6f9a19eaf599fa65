"""fsspec's WebHDFS, with `OSError` for every failure, and with all NameNodes of a name service.

fsspec raises `RuntimeError` and `ValueError` for a NameNode's refusals, reports a file as missing if it cannot ask
about it, and returns a DataNode's error message as the content of a file. Import this module only if fsspec and
requests are installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import requests
from fsspec.implementations.webhdfs import WebHDFile, WebHDFS  # type: ignore[import-untyped]
from requests.adapters import HTTPAdapter

_CONNECT_S, _ANSWER_S = 10, 60
_APPEND_BYTES = 16 << 20

_NOT_ACTIVE = {"StandbyException", "RetriableException", "ObserverRetryOnActiveException"}
_KINDS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
    "SecurityException": PermissionError,
}


class NotActive(OSError):
    """The NameNode is a standby, or is still starting."""


class StrictWebHDFS(WebHDFS):  # type: ignore[misc]
    """An HDFS. Its methods and its files raise `OSError` if the HDFS cannot be reached or refuses."""

    def __init__(self, addresses: Sequence[str], *, use_https: bool = False, user: str | None = None) -> None:
        """Use the NameNodes at these addresses, each `host:port`. Connects to none of them yet."""
        host, _, port = addresses[0].rpartition(":")
        super().__init__(host, int(port), use_https=use_https, user=user, skip_instance_cache=True)
        # Each append of a file costs two requests and a pipeline of DataNodes.
        self.blocksize = _APPEND_BYTES
        self._nodes = [f"{'https' if use_https else 'http'}://{address}/webhdfs/v1" for address in addresses]

    def _connect(self) -> None:
        super()._connect()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Strict())

    def _call(
        self,
        op: str,
        method: str = "get",
        path: str | None = None,
        data: Any = None,
        redirect: bool = True,
        **more: Any,
    ) -> requests.Response:
        """Ask the last active NameNode, or if it is not active the next one that is."""
        failures: dict[str, OSError] = {}
        for node in list(self._nodes):
            try:
                answer: requests.Response = self.session.request(
                    method.upper(),
                    node + quote(path or "", safe="/="),
                    params={**more, **self.pars, "op": op.upper()},
                    data=data,
                    allow_redirects=redirect,
                )
            except (NotActive, requests.ConnectionError, requests.Timeout) as error:
                failures[node] = error
                continue
            if node != self._nodes[0]:
                self._nodes = sorted(self._nodes, key=lambda each: each != node)
            return answer
        raise _unanswered(failures)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **options: Any) -> Any:
        with _understood():
            return _StrictFile(self, path, mode=mode, block_size=block_size or self.blocksize, tempdir="", **options)

    def info(self, path: str, **options: Any) -> Any:
        with _understood():
            return super().info(path)

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        with _understood():
            return super().ls(path, detail)

    def walk(self, path: str, *arguments: Any, **options: Any) -> Iterator[Any]:
        """Walk like fsspec, but raise if a folder cannot be listed."""
        walked: Iterator[Any] = super().walk(path, *arguments, **{**options, "on_error": "raise"})
        return walked

    def exists(self, path: str, **options: Any) -> bool:
        return bool(self._type(path))

    def isfile(self, path: str) -> bool:
        return self._type(path) == "file"

    def isdir(self, path: str) -> bool:
        return self._type(path) == "directory"

    def mkdir(self, path: str, **options: Any) -> None:
        self._done(self._call("MKDIRS", "put", path), f"the folder {path} cannot be made")

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        self._done(self._call("RENAME", "put", path1, destination=path2), f"{path1} cannot be renamed to {path2}")

    def _type(self, path: str) -> str:
        """Return "file" or "directory"; an empty text if it does not exist."""
        try:
            kind: str = self.info(path)["type"]
        except FileNotFoundError:
            return ""
        return kind

    @staticmethod
    def _done(answer: requests.Response, problem: str) -> None:
        with _understood():
            if answer.json()["boolean"] is not True:
                raise OSError(f"{problem}: the NameNode does not say why")


class _StrictFile(WebHDFile):  # type: ignore[misc]
    def _initiate_upload(self) -> None:
        with _understood():
            super()._initiate_upload()


class _Strict(HTTPAdapter):
    """Lets requests to an absent host fail instead of waiting for ever, and raises Hadoop's error answers."""

    def send(self, request: requests.PreparedRequest, *arguments: Any, **options: Any) -> requests.Response:
        answer = super().send(request, *arguments, **{**options, "timeout": (_CONNECT_S, _ANSWER_S)})
        if answer.status_code >= 400:
            raise _problem_of(answer)
        return answer


def _problem_of(answer: requests.Response) -> OSError:
    try:
        remote = answer.json()["RemoteException"]
        name, text = str(remote["exception"]), str(remote["message"]).strip().partition("\n")[0]
    except (ValueError, KeyError, TypeError):
        host = answer.url.partition("://")[2].partition("/")[0]
        kind = {403: PermissionError, 404: FileNotFoundError}.get(answer.status_code, OSError)
        return kind(f"{host} answers {answer.status_code} {answer.reason}")
    kind = NotActive if name in _NOT_ACTIVE else _KINDS.get(name, OSError)
    return kind(f"{name}: {text}")


def _unanswered(failures: Mapping[str, OSError]) -> OSError:
    """Return the error of a request that failed at each NameNode. If none can be reached, it names the setting."""
    causes = {node: _connection_failure(node, error) for node, error in failures.items()}
    if all(causes.values()):
        setting = f"dfs.namenode.{next(iter(causes)).partition(':')[0]}-address"
        setting = f"{setting}.<name service>.<NameNode>" if len(causes) > 1 else setting
        addresses = ", ".join(f"{urlsplit(node).netloc}: {cause}" for node, cause in causes.items())
        return OSError(f"the NameNode cannot be reached at its web address, which {setting} names ({addresses})")
    if len(failures) == 1:
        return next(iter(failures.values()))
    return OSError(f"no NameNode is active: {'; '.join(f'{node}: {error}' for node, error in failures.items())}")


def _connection_failure(node: str, error: OSError) -> BaseException | None:
    """Return why a NameNode cannot be reached; None if the request failed in another way, or at a DataNode."""
    if not isinstance(error, requests.ConnectionError) or error.request is None:
        return None
    if not str(error.request.url).startswith(node):
        return None
    cause: BaseException = error
    while inner := cause.__cause__ or cause.__context__:
        cause = inner
    return cause


@contextmanager
def _understood() -> Iterator[None]:
    """Raise `OSError` for an answer that is not from WebHDFS, but for example from another web server."""
    try:
        yield
    except OSError:
        raise
    except (RuntimeError, ValueError, LookupError, TypeError) as error:
        raise OSError(f"the answer is not WebHDFS's ({type(error).__name__}: {error})") from error
