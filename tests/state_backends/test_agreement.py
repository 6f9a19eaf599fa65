"""Our own backends answer like the memory backend, whatever is called in whatever order, to the word."""

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from anchorbolt.state_backends.memory import MemoryStateProvider
from anchorbolt.testing import check_agreement
from anchorbolt.testing.agreement import StateStorageAgreement


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", "redis", "redis_cluster", "hbase"])
def test_each_store_agrees_with_the_reference(request: pytest.FixtureRequest, tmp_path: Path, store: str) -> None:
    # Each call to HBase is some round trips to a server that takes a millisecond for each.
    check_agreement(request.getfixturevalue(f"{store}_provider"), examples=60 if store == "hbase" else 120)
    shutil.rmtree(tmp_path)  # some hundred examples leave some hundred files of SQLite


class ForgetfulProvider(MemoryStateProvider):
    """Commits, and says so, without dropping the losers."""

    def open(self, namespace: str) -> Any:
        storage = super().open(namespace)
        commit = storage.commit

        def commit_and_keep(fence: Any, txid: int, attempt: str) -> None:
            records = dict(storage._read().records)
            commit(fence, txid, attempt)
            storage._read().records.update({name: kept for name, kept in records.items() if name != attempt})

        storage.commit = commit_and_keep  # type: ignore[method-assign]
        return storage


class ForgetfulAgreement(StateStorageAgreement):
    provider = ForgetfulProvider()


def test_a_provider_that_answers_otherwise_is_found() -> None:
    generated = settings(
        max_examples=500,
        phases=[Phase.generate],  # not made simpler: it matters only that it is found
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(AssertionError, match="the reference: "):
        run_state_machine_as_test(ForgetfulAgreement, settings=generated)


def test_without_hypothesis_it_is_said_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis.strategies", None)
    monkeypatch.delitem(sys.modules, "anchorbolt.testing.agreement")
    with pytest.raises(ImportError, match="pip install hypothesis"):
        importlib.import_module("anchorbolt.testing.agreement")
