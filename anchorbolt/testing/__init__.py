"""Tools for tests of topologies, and of state providers of one's own. Import from its modules, what you need."""

__all__: list[str] = []
