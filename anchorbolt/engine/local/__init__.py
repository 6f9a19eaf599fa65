"""The local engine: runs a topology in this process, deterministically, for tests."""
