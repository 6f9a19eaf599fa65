"""What a run tells of itself, where no other test sees it."""

from anchorbolt.engine.submit.observed_run import longest


def test_a_wait_does_not_begin_anew_when_a_second_one_notices_the_same() -> None:
    assert longest({"the state store": 4.7}, {}) == {"the state store": 4.7}
    assert longest({"the state store": 5.7}, {"the state store": 0.1, "the sink": 2.0}) == {
        "the state store": 5.7,
        "the sink": 2.0,
    }
