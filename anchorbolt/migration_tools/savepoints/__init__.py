"""Savepoints: the state of a topology and the positions of its sources, in files of a directory."""
