"""State in SQLite files: the only package that imports `sqlite3`. `database_file` has the tables."""

from anchorbolt.state_backends.sqlite.provider import SqliteStateProvider

__all__ = ["SqliteStateProvider"]
