"""Reads state without running anything: namespaces, entries, and what the next start would do."""
