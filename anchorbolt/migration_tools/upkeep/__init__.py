"""Upkeep of a store: what is in it, and the removal of what is no longer needed."""
