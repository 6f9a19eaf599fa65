"""Whatever is killed at whatever moment: each word counts once, and each row is in the sink once."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import or_skip
from tests.crash.machines.campaign import PLACES, campaign
from tests.crash.machines.kills import Kills

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

KILLS, SEED = 8, 1


@pytest.mark.parametrize("where", PLACES)
def test_state_and_rows_are_exact(tmp_path: Path, where: str) -> None:
    with ExitStack() as servers:
        run, hdfs, kafka = or_skip(lambda: servers.enter_context(campaign(tmp_path, where)))
        kills = Kills(run, SEED, hdfs, kafka)
        kills.strike(KILLS)
    assert kills.wrong == []
    if hdfs is None:  # Spark's own query ends while it cannot write its offsets
        assert kills.ended == []
