"""The commands `anchorbolt dead-letters …`."""
