import copy
import pickle
from collections.abc import Callable

import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing.conformance.base import FIRST, committed


@pytest.mark.parametrize("copied", [pickle.dumps, copy.deepcopy])
def test_a_memory_store_is_not_copied_and_not_sent_to_another_process(copied: Callable[..., object]) -> None:
    with pytest.raises(ConfigError) as refusal:
        copied(MemoryStateProvider())
    assert refusal.value.key == "topology.state.provider"


def test_it_says_that_nobody_else_sees_its_data() -> None:
    provider = MemoryStateProvider()
    assert not provider.shared_by_processes
    assert not provider.shared_by_machines


def test_the_size_is_that_of_the_keys_and_values_whatever_was_replaced_and_removed() -> None:
    storage = MemoryStateProvider().open("words:count-0")
    committed(storage, [(b"a", b"123"), (b"bb", b"1")])
    committed(storage, [(b"a", b"1"), (b"bb", None), (b"absent", None)], txid=1, base=0)
    assert (storage.count(), storage.size()) == (1, 2)
    storage.write(FIRST, {b"a": b"12", b"c": b""}, "conformance/1")
    assert (storage.count(), storage.size()) == (2, 4)
