"""Tools that convert, copy and inspect state. They start no topology, and never import the engine."""
