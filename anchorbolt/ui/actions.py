"""The actions: to pause, to resume and to stop a run, under Storm's names where Storm has them.

Each needs the token, also on loopback. `Guard` has already refused requests of other origins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from anchorbolt.observe.web.guard import refused
from anchorbolt.ui.answers import Done
from anchorbolt.ui.cache import Answers

if TYPE_CHECKING:
    from anchorbolt.run.handle import RunHandle

Actions = Mapping[str, Callable[[], bool]]
"""The function of each action, by the last part of its path. It returns at once whether the run can still do it."""

ACTIONS = {
    "activate": "Resume a run that is paused.",
    "deactivate": "Pause the run: once its wave and what is in flight are done, no wave begins.",
    "stop": "Stop the run after its wave.",
}


def actions_on(handle: RunHandle, stop: Callable[[], None] | None = None) -> Actions:
    """Return the actions on a run. `stop` replaces the handle's `stop`, and must return at once."""
    return {
        "activate": partial(_resume, handle),
        "deactivate": partial(_pause, handle),
        "stop": partial(_done, stop or partial(_stop, handle)),
    }


def act(request: Request, name: str, actions: Actions, answers: Answers) -> Response:
    """Do an action, and answer as Storm does."""
    if not request.scope["has_token"]:
        return refused(401, "an action needs the token: open /login, or send 'Authorization: Bearer TOKEN'")
    if name not in actions:
        raise HTTPException(403, "actions are off, or the topology has not started: start it with --ui-actions")
    if not actions[name]():
        raise HTTPException(409, "the run has ended, or is to stop")
    answers.renew()
    done = Done(topology_operation=name, topology_id=request.path_params["id"])
    return Response(answers.encoded(done), media_type="application/json")


def _resume(handle: RunHandle) -> bool:
    handle.resume()
    return handle.status.value == "RUNNING"


def _done(call: Callable[[], None]) -> bool:
    call()
    return True


def _pause(handle: RunHandle) -> bool:
    handle.pause(0)
    return handle.paused


def _stop(handle: RunHandle) -> None:
    threading.Thread(target=handle.stop, name="anchorbolt-ui-stop", daemon=True).start()
