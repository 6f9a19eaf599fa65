"""The commands `anchorbolt state …`."""
