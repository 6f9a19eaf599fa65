"""The base class of all spouts."""

from abc import ABC, abstractmethod

from anchorbolt.streams.declaration import OutputFieldsDeclarer


class Spout(ABC):
    """A source of tuples."""

    @abstractmethod
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that this spout emits. Called once, while the topology is built."""
