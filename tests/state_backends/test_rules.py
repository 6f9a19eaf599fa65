import pytest

from anchorbolt.errors import ConfigError
from anchorbolt.state_backends.contract import StateProvider
from anchorbolt.state_backends.rules import check_attempt, check_namespace


@pytest.mark.parametrize(
    "name", ["word-count:count-0", "count-0", "a:$checkpointspout-0", "team.x:word-count:__state", "A" * 128 + ":b-0"]
)
def test_names_of_topologies_and_components_make_namespaces(name: str) -> None:
    check_namespace(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":",
        "a:",
        ":a",
        ".a",
        "a:.b",
        "a/b",
        "../a",
        "a@b",
        "a b",
        "a$prepare",
        "a:b$fence",
        "a\n",
        "ä",
        "$",
        "a:*",
        "A" * 129,
        ":".join(["a" * 100] * 3),
    ],
)
def test_names_that_some_store_could_not_take_are_refused_by_each(name: str, each_provider: StateProvider) -> None:
    with pytest.raises(ConfigError) as refusal:
        each_provider.open(name)
    assert repr(name) in str(refusal.value)


@pytest.mark.parametrize("attempt", ["", "a" * 31, "A" * 32, "g" * 32, "a" * 33, "a" * 32 + "\n"])
def test_attempt_ids_are_32_hexadecimal_digits(attempt: str) -> None:
    with pytest.raises(ValueError, match="32 lower-case"):
        check_attempt(attempt)
