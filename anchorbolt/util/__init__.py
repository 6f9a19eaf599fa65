"""Small helpers for every room: parts of messages, imports, and files at a local or remote location."""
