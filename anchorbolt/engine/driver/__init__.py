"""The driver's side of a run: rounds and task reports."""
