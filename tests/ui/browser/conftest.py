"""A real Chromium, and the pages of topologies that run and of ones that have run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from playwright.sync_api import Browser, sync_playwright

from anchorbolt.config import load_conf
from anchorbolt.engine import LocalCluster, RunHandle
from anchorbolt.engine.driver.runner import WorkerFigures
from anchorbolt.engine.local.runner import LocalRunner
from anchorbolt.files import open_folder
from anchorbolt.observe.history.segments import read_history
from anchorbolt.ui import UiServer
from tests.ui.browser.jobs import TOPOLOGIES, Count
from tests.ui.browser.visit import Visit

DEADLINE_S = 120.0
WAVES = 5
LIVE, RECORDED = "live", "recorded"

OpenPage = Callable[..., Visit]


@dataclass
class Shown:
    """A page that is served: of which topology, and where."""

    kind: str
    tasks: int
    address: str
    components: list[str]

    @property
    def label(self) -> str:
        return f"{self.tasks}-{self.kind}"


@pytest.fixture(scope="package")
def browser(chromium_program: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium_program)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open an address in a new window: `open_page(address, scheme="dark", width=400)`."""
    opened: list[Visit] = []

    def open_page(address: str, *, scheme: str = "light", width: int = 1400) -> Visit:
        opened.append(Visit(browser, address, scheme=scheme, width=width))
        return opened[-1]

    yield open_page
    for each in opened:
        each.close()


@pytest.fixture(scope="module", params=[f"{tasks}-{kind}" for tasks in TOPOLOGIES for kind in (LIVE, RECORDED)])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """The page of a topology of 1, 40 or 1,000 tasks that runs, or has run. One wave needed two rounds.

    The one that runs 40 tasks seems to have workers that stay.
    """
    number, kind = request.param.split("-")
    tasks = int(number)
    place = tmp_path_factory.mktemp("run")
    handle = start(tasks, str(place / "checkpoint"), str(place / "dead-letters"))
    patch = pytest.MonkeyPatch()
    if tasks == 40:
        workers = [WorkerFigures(each, f"host-{each}", 4711, time.time(), 20, 10, 1 << 21, 7, {}) for each in (0, 1)]
        patch.setattr(LocalRunner, "workers", lambda runner: workers)
    try:
        if kind == LIVE:
            server = UiServer(handle.topology, port=0)
            server.show(handle)
        else:
            handle.stop()
            folder, settings = open_folder(str(place / "checkpoint")), load_conf({"topology.ui.port": 0}).settings
            server = UiServer.of_history(folder.location, partial(read_history, folder), settings)
        graph = handle.observe().plan.graph
        yield Shown(kind, tasks, server.address, [*graph.spouts, *graph.bolts])
        server.close()
    finally:
        patch.undo()
        handle.stop()


def start(tasks: int, checkpoint: str, dead_letters: str) -> RunHandle:
    """Start a topology, and wait for some waves and a round that failed."""
    Count.refused.clear()
    conf = {
        "topology.state.provider": "memory",
        "topology.state.checkpoint.interval.ms": 200,
        "topology.checkpoint.location": checkpoint,
        **({"topology.dead.letter": dead_letters, "topology.max.tuple.retries": 0} if tasks == 1000 else {}),
        "my.api.token": "canary-0b1e",
    }
    handle = LocalCluster().submit(TOPOLOGIES[tasks](), conf, until_empty=False)
    deadline = time.monotonic() + DEADLINE_S
    while len(handle.reports) < WAVES or not any(each.rounds > 1 for each in handle.reports):
        assert handle.failure is None, handle.failure
        assert time.monotonic() < deadline, "the topology does not get on"
        time.sleep(0.05)
    return handle
