"""Puts the entries of a file into the state of a bolt."""
