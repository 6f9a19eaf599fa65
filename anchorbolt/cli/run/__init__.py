"""The command `anchorbolt run`."""
