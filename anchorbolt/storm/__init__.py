"""Reads the bytes of Storm's state: the wrapper around values, Base64, and Kryo streams. It uses no store."""
