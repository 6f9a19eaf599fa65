"""State in PostgreSQL, as a user of Anchorbolt would write it: a complete example of a state provider.

`provider` has the settings of the database, `storage` the steps of a transaction, `sessions` the connections, time
limits and errors, and `tables` the tables. docs/custom_provider.md explains them.
"""

from postgres_provider.provider import PostgresStateProvider

__all__ = ["PostgresStateProvider"]
