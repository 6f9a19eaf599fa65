"""How long a wave waits for Kafka: `topology.message.timeout.secs` after its last progress."""

from __future__ import annotations

from anchorbolt.errors import SinkUnavailable
from anchorbolt.util.retry import RetryPolicy


class Patience:
    """The patience of one wave, or of one start. Its time runs from the first failure after the last progress.

    Within a connection, each message that Kafka takes is progress. A new connection sends the wave from its first
    message. So over several connections only more messages than on any of them before are progress: a wave that Kafka
    aborts again and again is given up.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._most = 0  # messages that one connection has delivered
        self._of_stalls = policy.backoff()
        self._of_connections = policy.backoff()

    def advanced(self, delivered: int) -> None:
        """Note progress: the connection has now delivered `delivered` messages, more than at the last call."""
        self._of_stalls = self._policy.backoff()
        if delivered > self._most:
            self._most = delivered
            self._of_connections = self._policy.backoff()

    def may_stall(self, error: SinkUnavailable) -> bool:
        """Sleep and return True, to wait for the same connection; return False after the deadline."""
        return self._of_stalls.sleep_or_give_up(error)

    def may_connect_again(self, error: SinkUnavailable) -> bool:
        """Sleep and return True, to make a new connection; return False after the deadline."""
        return self._of_connections.pause_or_give_up(error) is not None and self.may_stall(error)
