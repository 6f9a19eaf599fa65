"""Locations for the driver of a run on Spark, by Hadoop's `FileSystem`."""
