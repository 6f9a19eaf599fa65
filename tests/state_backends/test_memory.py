import copy
import pickle
from collections.abc import Callable

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.memory import MemoryStateProvider


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_memory_store_is_not_copied_and_not_sent_to_another_process(copied: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as refusal:
        copied(MemoryStateProvider())
    assert refusal.value.key == "topology.state.provider"


def test_it_says_that_nobody_else_sees_its_data() -> None:
    provider = MemoryStateProvider()
    assert not provider.shared_by_processes
    assert not provider.shared_by_machines
