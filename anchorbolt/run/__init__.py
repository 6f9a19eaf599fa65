"""From a topology and its configuration to a run: the two clusters, and the handle that `submit` returns.

Nothing is imported here: a Spark worker needs none of it, and `LocalCluster` does not need Spark.
"""
