"""The Starlette app: the page's files, and the REST API under Storm's paths."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from msgspec import UNSET
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from anchorbolt.observe.web.access import COOKIE, SESSION_S, Access
from anchorbolt.observe.web.guard import Guard, Refused, http_error, refused
from anchorbolt.observe.web.metrics import MetricsText
from anchorbolt.ui.actions import ACTIONS, Actions, act
from anchorbolt.ui.answers import Ready
from anchorbolt.ui.cache import Answers, TooManyAnswers
from anchorbolt.ui.lookups import LookupRefused, Lookups
from anchorbolt.ui.model.now import readiness
from anchorbolt.ui.model.observation import Observation
from anchorbolt.ui.model.topology import summary
from anchorbolt.ui.routes import ANSWERED, BASE, COMPONENT_STATE, Answered, description

_log = logging.getLogger("anchorbolt.ui")

_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_JSON = "application/json"


@dataclass
class Shown:
    """The content to serve. Any thread may replace it as a whole, once a run has started."""

    answers: Answers
    metrics: MetricsText | None = None  # None while a run starts, and of a history
    actions: Actions = field(default_factory=dict)  # empty if actions are off
    lookups: Lookups | None = None  # as `metrics`


class UiApp:
    """Answers all requests. `shown` may be replaced at any time."""

    def __init__(self, shown: Shown, access: Access) -> None:
        self.shown = shown
        self._access = access
        folder = Path(__file__).parent / "static"
        found = (path for path in folder.rglob("*") if path.suffix in _TYPES)
        self._files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
        routes = [
            Route("/", self._index),
            Route("/static/{name:path}", self._file),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/metrics", self._metrics),
            Route("/api/v1/openapi.json", self._openapi),
            Route("/api/v1/topology/summary", self._summary),
            *(Route(BASE + each.path, partial(self._answered, each)) for each in ANSWERED),
            *(Route(f"{BASE}/{name}", partial(self._act, name), methods=["POST"]) for name in ACTIONS),
        ]
        handlers: Any = {HTTPException: http_error, TooManyAnswers: _too_many, Exception: _failed}
        self.asgi = Guard(Starlette(routes=routes, exception_handlers=handlers), access)

    async def _index(self, request: Request) -> Response:
        return self._static("index.html")

    async def _file(self, request: Request) -> Response:
        return self._static(request.path_params["name"])

    def _static(self, name: str) -> Response:
        """Return a file of the page. The files are in memory, so a name with `..` is just unknown."""
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
        may_read = request.scope["has_token"] or not self._access.reading_needs_token
        told = Ready(ready=ready, reason=reason if may_read else UNSET)
        return Response(answers.encoded(told), 200 if ready else 503, media_type=_JSON)

    async def _metrics(self, request: Request) -> Response:
        shown = self.shown
        if shown.metrics is None:
            raise HTTPException(404, "there are no metrics: the topology has not started, or has ended long ago")
        return shown.metrics.answer(request)

    async def _openapi(self, request: Request) -> Response:
        return self._answer("openapi", lambda seen: description())

    async def _summary(self, request: Request) -> Response:
        return self._answer("summary", summary)

    async def _answered(self, answered: Answered, request: Request) -> Response:
        self._check_id(request)
        given: dict[str, Any] = {"can_act": bool(self.shown.actions)}
        if (name := request.path_params.get("component")) is not None:
            key = request.query_params.get("key")
            if key is not None and answered.path == COMPONENT_STATE:
                return await self._lookup(name, key)
            given["component"] = name
        if (txid := request.path_params.get("txid")) is not None:
            if not txid.isdecimal() or len(txid) > 18:
                raise HTTPException(404, "there is no such wave")
            given["txid"] = int(txid)
        try:
            given |= {each.name: each.read(request.query_params.get(each.name)) for each in answered.parameters}
        except ValueError as error:
            raise HTTPException(400, str(error)) from error
        if name is not None and self.shown.answers.seen.component(name) is None:
            raise HTTPException(404, "there is no such component")
        return self._answer((answered.path, *given.values()), lambda seen: answered.make(seen, given))

    async def _lookup(self, component: str, key: str) -> Response:
        shown = self.shown
        if shown.lookups is None:
            raise HTTPException(404, "keys can be looked up while the driver runs, once the topology has started")
        try:
            return Response(shown.answers.encoded(await shown.lookups.find(component, key)), media_type=_JSON)
        except LookupRefused as error:
            refusal = Refused(f"{error.status}", error.reason)
            return Response(shown.answers.encoded(refusal), error.status, media_type=_JSON)

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


async def _failed(request: Request, error: Exception) -> Response:
    _log.debug("the page could not answer %s", request.url.path, exc_info=error)
    return refused(500, f"the server could not make this answer: {type(error).__name__}. Please report it")


async def _too_many(request: Request, error: Exception) -> Response:
    response = refused(503, "too many different requests within a second: try again")
    response.headers["Retry-After"] = "1"
    return response
