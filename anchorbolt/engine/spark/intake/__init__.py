"""What tasks ask the driver over a socket, and what it sends to rich spouts' tasks."""
