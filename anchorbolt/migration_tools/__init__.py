"""Tools that convert, copy and inspect state. They start no topology, and never import the engine."""

from anchorbolt.util.progress import Progress as Progress
