"""Storm-style topologies on Apache Spark, whose bolts keep durable, exactly-once key-value state.

This file names the version and must import nothing when it is loaded: every Spark worker imports it.
"""

__all__ = ["__version__", "open_state", "state_frame"]

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anchorbolt.querying import open_state
    from anchorbolt.querying.state_source import state_frame


def __getattr__(name: str) -> object:
    if name == "open_state":
        from anchorbolt.querying import open_state

        return open_state
    if name == "state_frame":
        from anchorbolt.querying.state_source import state_frame

        return state_frame
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
