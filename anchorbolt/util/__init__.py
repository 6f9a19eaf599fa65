"""Small helpers that every room uses: shared parts of messages, lazy imports, files at a local or remote location."""
