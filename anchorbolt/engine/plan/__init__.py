"""The plan of a run: which task runs where. Fixed for a run; pure."""
