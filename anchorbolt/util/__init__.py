"""Small helpers for every package: parts of messages, imports, retries, and files at a local or remote location."""
