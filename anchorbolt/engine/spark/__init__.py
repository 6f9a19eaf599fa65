"""The Spark engine. Imports nothing here: workers import `remote` before they can import its dependencies."""
