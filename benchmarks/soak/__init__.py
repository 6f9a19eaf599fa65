"""A stateful word count that runs for hours, and whether anything that belongs to it grows; see `__main__`."""
