"""The task of a stream spout sends large rows in blobs that are not much larger than others."""

from collections import Counter
from pathlib import Path

import pytest

from anchorbolt.checkpoint.ports import Round
from anchorbolt.engine.task.messages import TuplesMessage, decode_message
from anchorbolt.engine.task.spout_task import SourceRows, run_spout_task
from anchorbolt.run.preparation import prepare_plan
from anchorbolt.state_backends.contract import Fence
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import feeder, word_count


@pytest.mark.parametrize("small", [0, 50_000])
def test_large_rows_are_sent_in_smaller_blobs_also_after_small_ones(tmp_path: Path, small: int) -> None:
    blob_bytes = 100_000
    conf = {"topology.transfer.blob.bytes": blob_bytes}
    plan = prepare_plan(word_count(feeder()), conf, memory=MemoryStateProvider(), location=str(tmp_path))
    values = ["a"] * small + ["x" * 1000] * 20_000
    rows = [SourceRows("default", len(values), [values])]
    found: list[str] = []
    sizes: list[int] = []
    for envelope in run_spout_task(plan, "sentences", 0, Round(0, Fence(1, 1)), rows):
        message = decode_message(envelope.payload)
        if isinstance(message, TuplesMessage):
            sizes.append(len(envelope.payload))
            found += message.columns[0]
    assert Counter(found) == Counter(values)
    sizes.sort()
    assert sizes[-2] < 6 * blob_bytes
    assert sizes[-1] < 12 * blob_bytes, "where the rows become larger"
