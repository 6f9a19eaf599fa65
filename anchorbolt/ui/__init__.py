"""The page of a topology, and its REST API; `anchorbolt run --ui-port` serves them.

`model` makes the answers from a run, `answers` has their types, and `cache` makes each at most once a second.
`lookups` reads a key of a state, on a thread. `routes` and `app` serve them, on the server of `anchorbolt.observe.web`.
"""

from anchorbolt.ui.server import UiServer

__all__ = ["UiServer"]
