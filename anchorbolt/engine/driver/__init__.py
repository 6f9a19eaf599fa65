"""The driver's side of a run: rounds, namespaces, task reports, retries, the outbox."""
