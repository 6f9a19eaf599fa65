"""The command `anchorbolt ui`."""
