"""Locations as the driver of a run on Spark uses them, by Hadoop's `FileSystem`."""
