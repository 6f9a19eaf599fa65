"""The locations of a run as its driver uses them, by Hadoop's `FileSystem`; and their check before the run."""
