"""The commands `anchorbolt migrate …`."""
