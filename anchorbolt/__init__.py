"""Storm-style topologies on Apache Spark, whose bolts keep durable, exactly-once key-value state.

This file names the version and must import nothing when it is loaded: every Spark worker imports it.
"""

__all__ = ["__version__", "open_state"]

__version__ = "0.2.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from anchorbolt.querying import open_state


def __getattr__(name: str) -> object:
    if name == "open_state":
        from anchorbolt.querying import open_state

        return open_state
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
