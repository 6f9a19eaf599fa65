"""Whatever is killed at whatever moment: each word counts once, and each row is in the sink once."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import or_skip
from tests.crash.machines.campaign import campaign
from tests.crash.machines.kills import Kills, weights_for

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

KILLS, SEED = 8, 1
UNTIL_MERGED = pytest.mark.xfail(strict=True, reason="until the locations of i22-loc")


@pytest.mark.parametrize(
    "where", ["directory", pytest.param("hdfs", marks=UNTIL_MERGED), pytest.param("s3", marks=UNTIL_MERGED)]
)
def test_state_and_rows_are_exact(tmp_path: Path, where: str) -> None:
    with ExitStack() as servers:
        run, hdfs = or_skip(lambda: servers.enter_context(campaign(tmp_path, where)))
        kills = Kills(run, SEED, weights_for(hdfs), hdfs)
        kills.strike(KILLS)
    assert kills.wrong == []
    if hdfs is None:  # Spark's own query ends while it cannot write its offsets
        assert kills.ended == []
