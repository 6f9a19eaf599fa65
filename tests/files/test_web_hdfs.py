"""HDFS without a JVM: an outage raises `OSError`, and never looks like a file that is not there."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from anchorbolt.checkpoint.decision_log import FolderCopy
from anchorbolt.files import BaseLocation, Folder, WorkerLocations
from anchorbolt.files.stores import Store

pytest.importorskip("fsspec")

Answer = tuple[int, bytes]
ROOT: dict[str, Any] = {"type": "DIRECTORY", "length": 0, "modificationTime": 0, "pathSuffix": ""}


class NameNode:
    """A NameNode, and its DataNode, that answers each operation as the test says."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        node = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                parts = urlsplit(self.path)
                op = parse_qs(parts.query).get("op", [""])[0] if parts.path.startswith("/webhdfs") else "DATA"
                node.asked.append(op)
                code, content = node.answers.get(op) or node.answers["*"]
                self.send_response(code)
                if code == 307:
                    self.send_header("location", f"http://{node.address}/data")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - names of the base class

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def says(**content: object) -> Answer:
    return 200, json.dumps(content).encode()


def refuses(exception: str, code: int = 403) -> Answer:
    remote = {"exception": exception, "javaClassName": "x", "message": f"{exception} says why"}
    return code, json.dumps({"RemoteException": remote}).encode()


@pytest.fixture
def make_node() -> Iterator[Callable[[], NameNode]]:
    nodes: list[NameNode] = []

    def make() -> NameNode:
        nodes.append(NameNode())
        return nodes[-1]

    yield make
    for node in nodes:
        node.close()


def folder_of(*addresses: str) -> Folder:
    store = Store("webhdfs", "", (("use_https", False), ("user", "me")), addresses)
    return WorkerLocations(BaseLocation(), (("hdfs://jobs", store),)).open("hdfs://jobs/x")


def write(folder: Folder) -> None:
    with folder.create("a") as file:
        file.write(b"rows")


CALLS: dict[str, Callable[[Folder], object]] = {
    "exists": lambda folder: folder.exists("a"),
    "read": lambda folder: folder.read("a"),
    "read_end": lambda folder: folder.read_end("a", 3),
    "open": lambda folder: folder.open("a").read(),
    "names": lambda folder: list(folder.names("a")),
    "create": write,
    "replace": lambda folder: folder.replace("a", b"new"),
    "move_in": lambda folder: folder.move_in("hdfs://jobs/y", "a"),
    "remove_tree": lambda folder: folder.remove_tree("a"),
    "copy of the decision": lambda folder: FolderCopy(folder).read(),
}
REFUSALS = {
    "SafeModeException": refuses("SafeModeException"),
    "StandbyException": refuses("StandbyException"),
    "IOException": refuses("IOException", 500),
    "IllegalArgumentException": refuses("IllegalArgumentException", 400),
    "a page of another server": (200, b"<html>"),
    "another content": (200, b"{}"),
    "a proxy's error": (502, b"<html>"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_a_name_node_refuses_is_an_os_error(make_node: Callable[[], NameNode], call: str, refusal: str) -> None:
    node = make_node()
    node.answers["*"] = REFUSALS[refusal]
    with pytest.raises(OSError, match=r".") as caught:
        CALLS[call](folder_of(node.address))
    assert not isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize("call", CALLS)
def test_a_name_node_that_is_down_is_an_os_error(call: str) -> None:
    with pytest.raises(OSError, match=r".") as caught:
        CALLS[call](folder_of("127.0.0.1:1"))
    assert not isinstance(caught.value, FileNotFoundError)


def test_what_does_not_exist_is_not_there(make_node: Callable[[], NameNode]) -> None:
    node = make_node()
    node.answers["*"] = refuses("FileNotFoundException", 404)
    folder = folder_of(node.address)
    assert folder.read("a") is None
    assert not folder.exists("a")
    assert list(folder.names("a")) == []
    with pytest.raises(FileNotFoundError):
        folder.open("a")


def test_the_active_name_node_is_found_and_asked_first_from_then_on(make_node: Callable[[], NameNode]) -> None:
    standby, active = make_node(), make_node()
    standby.answers["*"] = refuses("StandbyException")
    active.answers["*"] = says(FileStatus=ROOT)
    folder = folder_of(standby.address, "127.0.0.1:1", active.address)
    assert folder.exists("a")
    assert folder.exists("a")
    assert (len(standby.asked), len(active.asked)) == (1, 2)
    standby.answers, active.answers = active.answers, standby.answers
    assert folder.exists("a")


def test_without_an_active_name_node_all_are_named(make_node: Callable[[], NameNode]) -> None:
    standby = make_node()
    standby.answers["*"] = refuses("StandbyException")
    with pytest.raises(OSError, match=r"StandbyException.*127\.0\.0\.1:1/"):
        folder_of(standby.address, "127.0.0.1:1").exists("a")


def test_the_error_of_a_data_node_is_not_the_content_of_a_file(make_node: Callable[[], NameNode]) -> None:
    node = make_node()
    node.answers |= {
        "GETFILESTATUS": says(FileStatus={**ROOT, "type": "FILE", "length": 4}),
        "OPEN": (307, b""),
        "DATA": refuses("IOException", 500),
    }
    with pytest.raises(OSError, match="IOException"):
        folder_of(node.address).read("a")
    node.answers["DATA"] = (200, b"rows")
    assert folder_of(node.address).read("a") == b"rows"


def test_a_listing_that_fails_is_not_an_empty_folder(make_node: Callable[[], NameNode]) -> None:
    node = make_node()
    node.answers |= {"GETFILESTATUS": says(FileStatus=ROOT), "LISTSTATUS": refuses("StandbyException")}
    with pytest.raises(OSError, match="StandbyException"):
        list(folder_of(node.address).names("a"))


def test_a_rename_that_is_not_done_is_an_os_error(make_node: Callable[[], NameNode]) -> None:
    node = make_node()
    done = says(boolean=True)
    node.answers |= {
        "GETFILESTATUS": says(FileStatus={**ROOT, "type": "FILE"}),
        "MKDIRS": done,
        "DELETE": done,
        "RENAME": says(boolean=False),
    }
    with pytest.raises(OSError, match="cannot be renamed"):
        folder_of(node.address).move_in("hdfs://jobs/y", "a")
