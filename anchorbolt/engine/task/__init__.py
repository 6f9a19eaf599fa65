"""The tasks' side of a wave, on any engine: instances of bolts, their emitted tuples, and the blobs between tasks."""
