import copy
import pickle

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.memory import MemoryStateProvider


def test_a_memory_store_is_not_sent_to_another_process() -> None:
    with pytest.raises(ConfigError, match="one process") as refusal:
        pickle.dumps(MemoryStateProvider())
    assert refusal.value.key == "topology.state.provider"


def test_a_memory_store_is_not_copied() -> None:
    with pytest.raises(ConfigError):
        copy.deepcopy(MemoryStateProvider())


def test_it_says_that_nobody_else_sees_its_data() -> None:
    provider = MemoryStateProvider()
    assert not provider.shared_by_processes
    assert not provider.shared_by_machines
