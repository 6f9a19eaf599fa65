"""The HTTP server of a driver: the metrics on their own port, and the page, are ASGI apps on it."""
