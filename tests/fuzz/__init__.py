"""Bytes from a store or from another task may be anything: they give a value, or an error of our tree."""
