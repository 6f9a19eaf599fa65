"""Copies state from one provider to another."""

from anchorbolt.migration_tools.copy.copying import CopyReport, copy_namespace, copy_topology

__all__ = ["CopyReport", "copy_namespace", "copy_topology"]
