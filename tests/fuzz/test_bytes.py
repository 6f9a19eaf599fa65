"""Twenty thousand damaged inputs to everything that decodes; a million in `make crash-test`."""

import pytest

from tests.fuzz import Target
from tests.fuzz.fuzzer import TARGETS, fuzz


def test_damaged_bytes_give_a_value_or_an_error_of_ours() -> None:
    summary = fuzz(20_000, seed=20_261_121)
    assert summary.findings == []
    assert summary.values > 1_000
    assert summary.refused > 5_000
    assert summary.grown_mib < 200


@pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])
def test_the_examples_are_valid(target: Target) -> None:
    for example in target.examples:
        target.decode(example)


def test_a_decoder_that_lets_another_exception_through_is_found() -> None:
    def careless(data: bytes) -> int:
        return data[3]

    found = fuzz(500, 1, [Target("careless", careless, [b"abcdef"])]).findings
    assert found
    assert {finding.what for finding in found} == {"IndexError: index out of range"}
