"""Tables of an SQLite file as the stores behind `TransactionalMap`: keys and lists, as JSON."""

import json
import sqlite3
from contextlib import closing, contextmanager


class Table:
    """A `BackingMap`: one row for each key."""

    def __init__(self, connection):
        self.connection = connection

    def multi_get(self, keys):
        text = json.dumps(keys)
        rows = self.connection.execute(
            "SELECT key, value FROM map WHERE key IN (SELECT value FROM json_each(?))", [text]
        )
        found = {key: json.loads(value) for key, value in rows}
        return [found.get(key) for key in keys]

    def multi_put(self, keys, values):
        rows = [(key, json.dumps(value)) for key, value in zip(keys, values, strict=True)]
        self.connection.executemany("INSERT OR REPLACE INTO map VALUES (?, ?)", rows)


@contextmanager
def transaction(path):
    """Give the table of a file for one transaction: reads and writes together, or nothing.

    A task that was taken for dead may wake up between its read and its write. The transaction keeps others from writing
    in between, and the txids in the table tell the task that its batch has been counted.
    """
    with closing(sqlite3.connect(path, timeout=60, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS map (key PRIMARY KEY, value TEXT)")
        connection.execute("BEGIN IMMEDIATE")
        yield Table(connection)
        connection.execute("COMMIT")


def read_all(path):
    """Return all values by key, without the txids."""
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        return {key: json.loads(value)[0] for key, value in connection.execute("SELECT key, value FROM map")}
