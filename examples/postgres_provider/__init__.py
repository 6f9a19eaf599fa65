"""State in PostgreSQL, as a user of Anchorbolt would write it: a complete example of a state provider.

`provider` says where the database is, `storage` takes the steps of a transaction, `sessions` owns the connections, the
time limits and the errors, `tables` is what lies in the database. Explained in docs/custom_provider.md.
"""

from postgres_provider.provider import PostgresStateProvider

__all__ = ["PostgresStateProvider"]
