"""The example of a provider of one's own keeps the contract, on a real PostgreSQL."""

from __future__ import annotations

import pytest

from anchorbolt.state_backends.base import StateProvider
from anchorbolt.testing import StateStorageConformance, check_agreement


class TestPostgres(StateStorageConformance):
    @pytest.fixture
    def provider(self, postgres_provider: StateProvider) -> StateProvider:
        return postgres_provider


@pytest.mark.slow
def test_it_agrees_with_the_reference(postgres_provider: StateProvider) -> None:
    check_agreement(postgres_provider, same_messages=True)
