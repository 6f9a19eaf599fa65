"""Tasks of one process unpickle their bolts one after the other: each may import modules."""

import threading
from typing import Any

from anchorbolt.run.preparation import prepare_plan
from anchorbolt.spouts.feeder import FeederSpout
from anchorbolt.state_backends.memory import MemoryStateProvider
from tests.engine.jobs import BasicBolt, one_bolt

INSIDE: list[int] = []
MOST: list[int] = []


class Slow(BasicBolt):
    def __getstate__(self) -> dict[str, Any]:
        return {"slow": True}

    def __setstate__(self, state: dict[str, Any]) -> None:
        INSIDE.append(1)
        threading.Event().wait(0.05)
        MOST.append(len(INSIDE))
        INSIDE.pop()

    def execute(self, tup: Any, collector: Any) -> None:
        pass


def test_only_one_thread_at_a_time_unpickles() -> None:
    plan = prepare_plan(one_bolt(Slow(), FeederSpout(["word"])), None, memory=MemoryStateProvider())
    MOST.clear()
    threads = [threading.Thread(target=plan.unpickle_bolt, args=("bolt",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert MOST == [1] * 4
