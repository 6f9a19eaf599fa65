"""Storm-style topologies on Apache Spark, whose bolts keep durable, exactly-once key-value state.

This file names the version and must import nothing: every Spark worker imports it.
"""

__all__ = ["__version__"]

__version__ = "0.2.0"
