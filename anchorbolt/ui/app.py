"""The Starlette app: the page's files, and the REST API under Storm's paths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from anchorbolt.observe.figures.server import MetricsText
from anchorbolt.ui.access import COOKIE, SESSION_S, Access
from anchorbolt.ui.actions import ACTIONS, Actions, act
from anchorbolt.ui.answers import Answers, TooManyAnswers
from anchorbolt.ui.guard import Guard, refused
from anchorbolt.ui.lookups import LookupRefused, Lookups
from anchorbolt.ui.model.component import MOST_TASKS, SORTS, component
from anchorbolt.ui.model.configuration import configuration
from anchorbolt.ui.model.failures import failures
from anchorbolt.ui.model.now import now, readiness
from anchorbolt.ui.model.observation import ALL_WINDOWS, Observation
from anchorbolt.ui.model.state import component_state, state
from anchorbolt.ui.model.topology import DEFAULT_WINDOW, graph, summary, topology
from anchorbolt.ui.model.waves import MOST_WAVES, wave, waves
from anchorbolt.ui.openapi import description

_log = logging.getLogger("anchorbolt.ui")

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_JSON = "application/json"


@dataclass
class Shown:
    """What the server shows now. Replaced as a whole, from any thread, once a run has started."""

    answers: Answers
    metrics: MetricsText | None = None  # None while a run starts, and of a history
    actions: Actions = field(default_factory=dict)  # none if nobody may act
    lookups: Lookups | None = None  # as `metrics`


class UiApp:
    """Answers all requests. `shown` may be replaced at any time."""

    def __init__(self, shown: Shown, access: Access) -> None:
        self.shown = shown
        self._access = access
        folder = Path(__file__).parent / "static"
        found = (path for path in folder.rglob("*") if path.suffix in _TYPES)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        base = "/api/v1/topology/{id}"
        routes = [
            Route("/", self._index),
            Route("/static/{name:path}", self._file),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
            Route("/api/v1/openapi.json", self._openapi),
            Route("/api/v1/topology/summary", self._summary),
            Route(base, self._topology),
            Route(f"{base}/component/{{component}}", self._component),
            Route(f"{base}/graph", self._graph),
            Route(f"{base}/state", self._state),
            Route(f"{base}/state/{{component}}", self._component_state),
            Route(f"{base}/now", self._now),
            Route(f"{base}/waves", self._waves),
            Route(f"{base}/waves/{{txid}}", self._wave),
            Route(f"{base}/failures", self._failures),
            Route(f"{base}/configuration", self._configuration),
            *(Route(f"{base}/{name}", partial(self._act, name), methods=["POST"]) for name in ACTIONS),
        ]
        handlers: Any = {HTTPException: _http_error, TooManyAnswers: _too_many, Exception: _failed}
        self.asgi = Guard(Starlette(routes=routes, exception_handlers=handlers), access)

    async def _index(self, request: Request) -> Response:
        return self._static("index.html")

    async def _file(self, request: Request) -> Response:
        return self._static(request.path_params["name"])

    def _static(self, name: str) -> Response:
        """Return a file of the page. The files are in memory, so a name with `..` is just an unknown one."""
        data = self._files.get(name)
        if data is None:
            raise HTTPException(404, "there is no such file")
        return Response(data, media_type=_TYPES[Path(name).suffix], headers={"Cache-Control": "no-cache"})

    async def _login(self, request: Request) -> Response:
        if request.method != "POST":
            return self._static("login.html")
        given = parse_qs((await request.body()).decode("utf-8", "replace")).get("token", [""])[0]
        if not self._access.is_token(given):
            return Response(self._files["login.html"], 401, media_type="text/html")
        response = RedirectResponse("/", status_code=303)
        response.set_cookie(
            COOKIE, self._access.new_session(), max_age=SESSION_S, httponly=True, samesite="strict", path="/"
        )
        return response

    async def _healthz(self, request: Request) -> Response:
        return Response("ok\n", media_type="text/plain")

    async def _readyz(self, request: Request) -> Response:
        answers = self.shown.answers
        ready, reason = readiness(answers.seen)
        told: dict[str, Any] = {"ready": ready}
        if request.scope["has_token"] or not self._access.reading_needs_token:
            told["reason"] = reason
        return Response(answers.encoded(told), 200 if ready else 503, media_type=_JSON)

    async def _metrics(self, request: Request) -> Response:
        shown = self.shown
        if shown.metrics is None:
            raise HTTPException(404, "there are no metrics: the topology has not started, or has ended long ago")
        text, content_type = shown.metrics.for_client(request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": content_type})

    async def _openapi(self, request: Request) -> Response:
        return self._answer("openapi", lambda seen: description())

    async def _summary(self, request: Request) -> Response:
        return self._answer("summary", summary)

    async def _topology(self, request: Request) -> Response:
        window, sys = self._window(request), request.query_params.get("sys") == "1"
        return self._answer(("topology", window, sys), lambda seen: topology(seen, window, sys=sys))

    async def _component(self, request: Request) -> Response:
        window, name = self._window(request), request.path_params["component"]
        first = _number(request, "first", 0, 0, 1_000_000)
        count = _number(request, "count", 50, 1, MOST_TASKS)
        sort = request.query_params.get("sort", "task")
        if sort not in SORTS:
            raise HTTPException(400, f"sort must be one of {', '.join(SORTS)}")
        if self.shown.answers.seen.component(name) is None:
            raise HTTPException(404, "there is no such component")
        return self._answer(
            ("component", name, window, first, count, sort),
            lambda seen: component(seen, name, window, first=first, count=count, sort=sort),
        )

    async def _graph(self, request: Request) -> Response:
        window = self._window(request)
        return self._answer(("graph", window), lambda seen: graph(seen, window))

    async def _state(self, request: Request) -> Response:
        self._check_id(request)
        return self._answer("state", state)

    async def _component_state(self, request: Request) -> Response:
        self._check_id(request)
        name, key = request.path_params["component"], request.query_params.get("key")
        if key is not None:
            return await self._lookup(name, key)
        first = _number(request, "first", 0, 0, 1_000_000)
        count = _number(request, "count", 50, 1, MOST_TASKS)
        if self.shown.answers.seen.component(name) is None:
            raise HTTPException(404, "there is no such component")
        return self._answer(
            ("state", name, first, count), lambda seen: component_state(seen, name, first=first, count=count)
        )

    async def _lookup(self, component: str, key: str) -> Response:
        shown = self.shown
        if shown.lookups is None:
            raise HTTPException(404, "keys can be looked up while the driver runs, once the topology has started")
        try:
            return Response(shown.answers.encoded(await shown.lookups.find(component, key)), media_type=_JSON)
        except LookupRefused as error:
            refusal = {"error": f"{error.status}", "errorMessage": error.reason}
            return Response(shown.answers.encoded(refusal), error.status, media_type=_JSON)

    async def _now(self, request: Request) -> Response:
        self._check_id(request)
        return self._answer("now", lambda seen: {**now(seen), "canAct": bool(self.shown.actions)})

    async def _waves(self, request: Request) -> Response:
        self._check_id(request)
        last = _number(request, "last", 100, 1, MOST_WAVES)
        failed = request.query_params.get("failed") == "1"
        return self._answer(("waves", last, failed), lambda seen: waves(seen, last, only_failed=failed))

    async def _wave(self, request: Request) -> Response:
        self._check_id(request)
        txid = request.path_params["txid"]
        if not txid.isdecimal() or len(txid) > 18:
            raise HTTPException(404, "there is no such wave")
        return self._answer(("wave", int(txid)), lambda seen: wave(seen, int(txid)))

    async def _failures(self, request: Request) -> Response:
        self._check_id(request)
        return self._answer("failures", failures)

    async def _configuration(self, request: Request) -> Response:
        self._check_id(request)
        return self._answer("configuration", configuration)

    async def _act(self, name: str, request: Request) -> Response:
        self._check_id(request)
        return act(request, name, self.shown.actions, self.shown.answers)

    def _answer(self, key: Hashable, make: Callable[[Observation], Any]) -> Response:
        data = self.shown.answers.get(key, make)
        if data is None:
            raise HTTPException(404, "there is no such thing, or it is not known any more")
        return Response(data, media_type=_JSON)

    def _check_id(self, request: Request) -> None:
        if request.path_params["id"] != self.shown.answers.seen.topology:
            raise HTTPException(404, "this server shows another topology: see /api/v1/topology/summary")

    def _window(self, request: Request) -> str:
        """Check the topology's id, and return the window that is asked for."""
        self._check_id(request)
        window = request.query_params.get("window", DEFAULT_WINDOW)
        if window not in ALL_WINDOWS:
            raise HTTPException(400, f"window must be one of {', '.join(ALL_WINDOWS)}")
        return window


def _number(request: Request, name: str, default: int, low: int, high: int) -> int:
    text = request.query_params.get(name, str(default))
    if not text.isdecimal() or len(text) > 9 or not low <= int(text) <= high:
        raise HTTPException(400, f"{name} must be a number from {low} to {high}")
    return int(text)


async def _http_error(request: Request, error: HTTPException) -> Response:
    return refused(error.status_code, error.detail)


async def _failed(request: Request, error: Exception) -> Response:
    _log.debug("the page could not answer %s", request.url.path, exc_info=error)
    return refused(500, f"the server could not make this answer: {type(error).__name__}. Please report it")


async def _too_many(request: Request, error: Exception) -> Response:
    response = refused(503, "too many different requests within a second: try again")
    response.headers["Retry-After"] = "1"
    return response
