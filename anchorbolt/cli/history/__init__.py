"""The command `anchorbolt history`."""
