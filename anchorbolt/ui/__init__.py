"""The page of a topology, and its REST API; `anchorbolt run --ui-port` serves them.

`model` makes the answers from what a run tells. `answers` makes each at most once a second. `lookups` reads a key of a
state, on a thread. `app` has the routes, `guard` and `access` the rules of security, `server` the thread. Needs the
extra `anchorbolt[ui]`.
"""

from anchorbolt.ui.server import UiServer

__all__ = ["UiServer"]
