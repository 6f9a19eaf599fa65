"""The tasks' side of a wave, on any engine: instances of bolts, what they emit, and the blobs between tasks."""
