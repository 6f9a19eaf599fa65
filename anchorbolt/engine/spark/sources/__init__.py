"""The sources of stream spouts: their names at the checkpoint location, and their rows."""
