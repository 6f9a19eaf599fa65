import pytest

from anchorbolt.transactional import MemoryTransactionalSpout, TransactionalTopologyBuilder


def words() -> MemoryTransactionalSpout:
    return MemoryTransactionalSpout({0: [("a",)], 1: []}, ["word"], 10)


@pytest.fixture
def builder() -> TransactionalTopologyBuilder:
    """A builder with the spout `spout`, and no bolt yet."""
    return TransactionalTopologyBuilder("global-count", "spout", words(), parallelism=3)
