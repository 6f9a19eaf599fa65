"""Small helpers for every room: parts of messages, imports, retries, and files at a local or remote location."""
