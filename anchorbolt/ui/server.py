"""The server of the page."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from anchorbolt.config.masking import secrets_in
from anchorbolt.config.secret import Secret, find_password
from anchorbolt.config.settings import Settings
from anchorbolt.errors import ConfigError
from anchorbolt.observe.web.access import Access
from anchorbolt.observe.web.metrics import MetricsText
from anchorbolt.observe.web.server import HttpServer, place_of
from anchorbolt.ui.actions import actions_on
from anchorbolt.ui.app import Shown, UiApp
from anchorbolt.ui.cache import Answers
from anchorbolt.ui.lookups import Lookups
from anchorbolt.ui.model.live import LiveRun, starting
from anchorbolt.ui.model.recorded import RecordedRun

if TYPE_CHECKING:
    from anchorbolt.observe.history.records import Record
    from anchorbolt.run.handle import RunHandle
    from anchorbolt.run.start import RunStart

_DEFAULT_PORT = 8080  # Storm's
_SHORTEST_TOKEN = 16


class UiServer:
    """Serves the page, the REST API and the metrics of one topology, until it is closed or Python ends."""

    def __init__(
        self,
        topology: str,
        *,
        port: int,
        host: str = "127.0.0.1",
        token: Secret | None = None,
        actions: bool = False,
        max_checkpoint_age_s: float = 300.0,
        start: RunStart | None = None,
    ) -> None:
        """Listen on a port, and show that the topology starts. Port 0 chooses a free one.

        Args:
            topology: The name of the topology that `show` will show.
            port: The TCP port.
            host: A name or an address of this machine. Only loopback does not need a token.
            token: Required for actions and, if the host is not loopback, for reading.
            actions: Whether somebody with the token may pause and stop the run.
            max_checkpoint_age_s: `/readyz` fails above this age.
            start: Internal: the waits of the topology's start.

        Raises:
            ConfigError: The port cannot be used, or the token is missing or too short.
        """
        try:
            place = place_of(host, port)
        except OSError as error:
            raise ConfigError(
                f"topology.ui.host is {host!r}, which is not known: {error.strerror}. Name this machine, or one of its "
                "addresses.",
                key="topology.ui.host",
            ) from error
        self._actions = actions
        _check_token(host, token, is_loopback=place.is_loopback, actions=actions)
        self._server = HttpServer(place, "ui")
        self._token = token
        observe = partial(starting, topology, max_checkpoint_age_s, time.time(), start)
        access = Access(host=host, is_loopback=place.is_loopback, token=token)
        metrics = None if start is None else MetricsText(start.collector())
        self._app = UiApp(Shown(Answers(observe, self._own_secrets()), metrics), access)
        self._server.start(self._app.asgi)

    @classmethod
    def from_settings(cls, topology: str, settings: Settings, start: RunStart | None = None) -> UiServer | None:
        """Return a server by the keys `topology.ui.…`; None without `topology.ui.port`.

        `start` has the waits of the topology's start.

        Raises:
            ConfigError: As the constructor, or the token cannot be read.
        """
        if settings.ui_port is None:
            return None
        keys = ("topology.ui.token", "topology.ui.tokenEnv", "topology.ui.tokenFile")
        return cls(
            topology,
            port=settings.ui_port,
            host=settings.ui_host,
            token=find_password(keys, None, settings.ui_token_env, settings.ui_token_file),
            actions=settings.ui_actions,
            max_checkpoint_age_s=settings.health_max_checkpoint_age_secs,
            start=start,
        )

    @classmethod
    def of_history(cls, location: str, read: Callable[[], Iterable[Record]], settings: Settings) -> UiServer:
        """Return a server of the history at a checkpoint location; `read` yields its records, oldest first.

        The port is `topology.ui.port`, by default 8080.

        Raises:
            ConfigError: As `from_settings`, or the history cannot be read.
        """
        recorded = RecordedRun(location, read)
        try:
            topology = recorded.observe().topology
        except OSError as error:
            raise ConfigError(f"the history at {location} cannot be read: {error}. Name another location.") from error
        port = _DEFAULT_PORT if settings.ui_port is None else settings.ui_port
        server = cls.from_settings(topology, replace(settings, ui_port=port, ui_actions=False))
        assert server is not None
        server._app.shown = Shown(Answers(recorded.observe, server._own_secrets()))
        return server

    @property
    def address(self) -> str:
        """The address of the page, as `http://127.0.0.1:8080/`."""
        return self._server.address

    def show(
        self, handle: RunHandle, *, origins: Mapping[str, str] | None = None, stop: Callable[[], None] | None = None
    ) -> None:
        """Show a run from now on, also after its end.

        Args:
            handle: The run.
            origins: The source of each key of its configuration, such as `Configuration.origins`.
            stop: Called for the action `stop` and must return at once; by default the handle's `stop`, on a thread.
        """
        plan = handle.observe().plan
        secrets = [*self._own_secrets(), *secrets_in(plan.conf), *secrets_in(plan.settings)]
        self._app.shown = Shown(
            Answers(LiveRun(handle, origins).observe, secrets),
            MetricsText(handle.collector()),
            actions_on(handle, stop) if self._actions else {},
            Lookups(plan),
        )

    def close(self) -> None:
        """Stop listening. May be called more than once, but not by the server's own thread."""
        self._server.close()

    def _own_secrets(self) -> list[str]:
        return [] if self._token is None else [self._token.reveal()]


def _check_token(host: str, token: Secret | None, *, is_loopback: bool, actions: bool) -> None:
    how = "Set topology.ui.tokenEnv or topology.ui.tokenFile"
    if token is None and not is_loopback:
        raise ConfigError(
            f"topology.ui.host is {host!r}, which other machines can reach, and there is no token. {how}, or listen on "
            "127.0.0.1.",
            key="topology.ui.host",
        )
    if token is None and actions:
        raise ConfigError(f"topology.ui.actions needs a token. {how}.", key="topology.ui.actions")
    if token is not None and len(token.reveal()) < _SHORTEST_TOKEN:
        raise ConfigError(
            f"the token of the page has less than {_SHORTEST_TOKEN} characters. Make one with: openssl rand -hex 32",
            key="topology.ui.tokenEnv",
        )
