"""A state machine that makes the same calls, in any order, on a state provider and the reference, and compares them.

It covers cases that the separate tests of `conformance` do not: steps out of order, repeated, from two handles, with
valid and invalid fences and txids. For the author of a provider:

```python
from anchorbolt.testing import check_agreement

def test_my_provider_agrees_with_the_reference(provider):
    check_agreement(provider)
```

Needs Hypothesis, which Anchorbolt does not install. The active Hypothesis profile applies: seeds, database, printing.
"""

import uuid
from typing import Any

from anchorbolt.errors import StateError
from anchorbolt.state_backends.contract import Fence, ReadPosition, Seal, StagedSlice, StateProvider, StateStorage
from anchorbolt.state_backends.memory import MemoryStateProvider

try:
    import hypothesis.strategies as st
    from hypothesis import HealthCheck, settings
    from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
except ImportError as error:
    raise ImportError(
        f"anchorbolt.testing.agreement needs Hypothesis, which cannot be imported ({error}): pip install hypothesis",
        name=error.name,
    ) from error

_ATTEMPTS = [letter * 32 for letter in "abc"]
_KEYS = [b"", b"k", b"key", b"\xc1", b"\x00", b"applied", b"0"]

_fences = st.builds(Fence, st.integers(0, 3), st.integers(0, 3))
_txids = st.integers(-1, 4)
_attempts = st.sampled_from(_ATTEMPTS)
_handles = st.integers(0, 1)
_values = st.one_of(st.none(), st.sampled_from([b"", b"-", b"+", b"\xc1"]), st.binary(max_size=3))
_updates = st.dictionaries(st.sampled_from(_KEYS), _values, max_size=4)
_entries = st.dictionaries(st.sampled_from(_KEYS), st.binary(max_size=3), max_size=3)
_codecs = st.sampled_from(["one", "one", "one", "two"])
_slices = st.builds(StagedSlice, _fences, _txids, _attempts, _txids, st.integers(0, 3), _updates, _codecs)
_read_positions = st.none() | st.just(True) | st.builds(ReadPosition, _txids, st.sampled_from(["", *_ATTEMPTS]))
"""The read position of a reader: none, the namespace's own, or a different one."""

_Outcome = tuple[str, object]
_Updates = dict[bytes, "bytes | None"]


def _any_call(method: str, *arguments: st.SearchStrategy[Any]) -> Any:
    """Return a rule that calls a method of both storages, with valid or invalid arguments."""

    def call(self: "StateStorageAgreement", handle: int, given: tuple[Any, ...]) -> None:
        self._both(handle, method, *given)

    call.__name__ = method
    return rule(handle=_handles, given=st.tuples(*arguments))(call)


class StateStorageAgreement(RuleBasedStateMachine):
    """Two handles of one new namespace, on the provider under test and on the reference; every call goes to both.

    `check_agreement` runs it; subclass it to set `provider` yourself and to run it directly with Hypothesis.
    """

    provider: StateProvider  # the provider under test; its store may hold other namespaces

    def __init__(self) -> None:
        super().__init__()
        self._namespace = f"agreement:{uuid.uuid4().hex}"
        self._providers = [MemoryStateProvider(), self.provider]
        self._storages = [self._opened(), self._opened()]
        self._last: tuple[Any, ...] | None = None

    def _opened(self) -> list[StateStorage]:
        return [provider.open(self._namespace) for provider in self._providers]

    def _both(self, handle: int, method: str, *arguments: Any) -> _Outcome:
        """Make one call on both, compare the outcomes, and remember the call to repeat it."""
        expected, actual = (self._outcome(storage, method, arguments) for storage in self._storages[handle])
        self._demand(actual, expected)
        self._last = (handle, method, *arguments)
        return expected

    def _demand(self, actual: object, expected: object) -> None:
        assert actual == expected, f"{self.provider.describe()}: {actual}; the reference: {expected}"

    def _outcome(self, storage: StateStorage, method: str, arguments: tuple[Any, ...]) -> _Outcome:
        try:
            answer = getattr(storage, method)(*arguments)
            return "returned", sorted(entry for page in answer for entry in page) if method == "scan" else answer
        except StateError as error:
            return "raised", (type(error).__name__, error.namespace)

    claim = _any_call("claim")
    raise_fence = _any_call("raise_fence", _fences)
    stage = _any_call("stage", _slices)
    seal = _any_call("seal", _fences, _attempts, st.builds(Seal, st.integers(0, 3), st.just(0)))
    commit = _any_call("commit", _fences, _txids, _attempts)
    rollback = _any_call("rollback", _fences)
    write = _any_call("write", _fences, _entries, _codecs)

    def _next_slice(self, attempt: str, number: int, updates: _Updates, *, seq_above: int = 0) -> StagedSlice:
        head = self._storages[0][0].head()
        fence = Fence(head.fence.generation, head.fence.seq + seq_above)
        return StagedSlice(fence, head.committed + 1, attempt, head.committed, number, updates, head.codec or "one")

    @rule(handle=_handles, higher=st.booleans(), attempt=_attempts, updates=st.lists(_updates, min_size=1, max_size=3))
    def stage_as_one_should(self, handle: int, higher: bool, attempt: str, updates: list[_Updates]) -> None:
        for number, some in enumerate(updates):
            self._both(handle, "stage", self._next_slice(attempt, number, some, seq_above=higher and number == 0))

    @rule(handle=_handles, attempt=_attempts, updates=_updates, commit=st.booleans())
    def finish_an_attempt(self, handle: int, attempt: str, updates: _Updates, commit: bool) -> None:
        """Add a slice, perhaps the first, seal the attempt, and commit it if `commit` is True."""
        for number in range(3):
            staged = self._next_slice(attempt, number, updates)
            kind, seal = self._both(handle, "stage", staged)
            if kind == "returned":
                self._both(handle, "seal", staged.fence, attempt, seal)
                break
        if commit:
            self._both(handle, "commit", staged.fence, staged.txid, attempt)

    @rule(
        handle=_handles,
        keys=st.lists(st.sampled_from(_KEYS), max_size=5),
        attempt=st.none() | _attempts,
        at=_read_positions,
    )
    def get_many(self, handle: int, keys: list[bytes], attempt: str | None, at: ReadPosition | bool | None) -> None:
        self._both(handle, "get_many", keys, attempt, self._read_position(attempt, at))

    @rule(handle=_handles, attempt=st.none() | _attempts, page_size=st.integers(1, 4), at=_read_positions)
    def scan(self, handle: int, attempt: str | None, page_size: int, at: ReadPosition | bool | None) -> None:
        self._both(handle, "scan", attempt, page_size, self._read_position(attempt, at))

    def _read_position(self, attempt: str | None, at: ReadPosition | bool | None) -> ReadPosition | None:
        if not isinstance(at, bool):
            return at
        head = self._storages[0][0].head()
        staged = head.attempts.get(attempt or "")
        return ReadPosition(head.committed, head.winner, staged.seal if staged else None)

    @rule()
    def repeat_the_last_call(self) -> None:
        if self._last is not None:
            self._both(*self._last)

    @rule(handle=_handles)
    def reopen(self, handle: int) -> None:
        for storage in self._storages[handle]:
            storage.close()
        self._storages[handle] = self._opened()
        self._last = None

    @rule()
    def list_namespaces(self) -> None:
        expected, actual = (list(each.namespaces(self._namespace)) for each in self._providers)
        self._demand(actual, expected)

    @invariant()
    def heads_are_equal(self) -> None:
        expected, actual = (storage.head() for storage in self._storages[0])
        self._demand(actual, expected)

    def teardown(self) -> None:
        for storages in self._storages:
            for storage in storages:
                storage.close()


def check_agreement(provider: StateProvider, *, examples: int = 120, steps: int = 40) -> None:
    """Run the state machine on a provider; fail with the shortest sequence of calls with a different outcome.

    Each example uses its own namespace, with a name that starts with `agreement`, and leaves it in the store.

    Args:
        provider: The provider under test.
        examples: Number of sequences of calls.
        steps: Maximum number of calls in a sequence.
    """
    run_state_machine_as_test(
        type("Agreement", (StateStorageAgreement,), {"provider": provider}),
        settings=settings(
            max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck), deadline=None
        ),
    )
