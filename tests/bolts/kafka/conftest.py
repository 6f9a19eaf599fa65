import pytest

from anchorbolt.bolts.kafka import producer
from tests.bolts.kafka.fake_client import FakeConsumer, FakeProducer


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[FakeProducer]:
    """Let connections use a fake client; the test says on the class how its producer behaves."""
    FakeProducer.deliveries, FakeProducer.capacity = [], 1000
    FakeProducer.is_fenced = FakeProducer.committed = False
    monkeypatch.setattr(producer, "Producer", FakeProducer)
    monkeypatch.setattr(producer, "Consumer", FakeConsumer)
    return FakeProducer
