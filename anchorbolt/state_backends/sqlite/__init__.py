"""State in SQLite files: the only room that imports `sqlite3`."""

from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider

__all__ = ["SqliteStateProvider"]
