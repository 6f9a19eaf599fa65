"""The marker says whether a wave was sent; a marker of another history is refused. Without Kafka."""

from dataclasses import replace

import pytest

from anchorbolt.bolts.kafka.marker import Marker, check_history, digest_of, is_sent
from anchorbolt.bolts.sink import SinkFile
from anchorbolt.errors import StateRegressed

FILES = [SinkFile("out", task, f"/x/1-1/out-{task}-{task:032x}.parquet", 5, b"") for task in range(2)]
DIGEST = digest_of(FILES)


def test_the_digest_depends_on_the_winning_attempts_alone() -> None:
    assert digest_of(FILES[::-1]) == DIGEST
    assert digest_of([replace(file, path=file.path.replace("/x/", "/moved/")) for file in FILES]) == DIGEST
    assert digest_of([FILES[0], replace(FILES[1], path="/x/1-1/out-1-other.parquet")]) != DIGEST
    assert digest_of(FILES[:1]) != DIGEST


@pytest.mark.parametrize(
    ("marker", "sent"), [(Marker(8, DIGEST), True), (Marker(7, "other"), False), (Marker(7), False), (Marker(0), False)]
)
def test_a_wave_is_sent_if_the_marker_is_of_it(marker: Marker, sent: bool) -> None:
    assert is_sent(marker, 7, DIGEST) is sent


@pytest.mark.parametrize("marker", [Marker(8, "other"), Marker(8), Marker(9, DIGEST)])
def test_a_marker_of_other_rows_or_of_a_later_wave_is_refused(marker: Marker) -> None:
    with pytest.raises(StateRegressed) as refused:
        is_sent(marker, 7, DIGEST)
    assert refused.value.expected
    assert refused.value.found


def test_a_committed_state_may_not_be_behind_the_marker() -> None:
    check_history(Marker(8, DIGEST), 7)
    check_history(Marker(0), -1)
    with pytest.raises(StateRegressed):
        check_history(Marker(9, DIGEST), 7)
