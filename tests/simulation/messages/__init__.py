"""Messages of a rich spout: acked, failed, delivered again, acked late, and timed out."""
