"""The Spark engine. Imports nothing here: `remote` must be importable on a worker that lacks every dependency."""
